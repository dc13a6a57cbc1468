#include <gtest/gtest.h>

#include <cstdint>

#include "unicode/classes_v16_0.h"
#include "unicode/normalization_v9_0.h"
#include "unicode/numeric_v17_0.h"

namespace slm::unicode {
namespace {

size_t CountClass(uint8_t bit) {
  size_t n = 0;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) n += (ClassV16(c) & bit) != 0 ? 1u : 0u;
  return n;
}

// Sizes of the sets as Unicode 16.0 publishes them (DerivedGeneralCategory.txt, PropList.txt).
TEST(Classes, Tok07SizesOfUnicode16) {
  EXPECT_EQ(CountClass(kLetter), 141028u);
  EXPECT_EQ(CountClass(kNumber), 1911u);
  EXPECT_EQ(CountClass(kWhiteSpace), 25u);
}

TEST(Classes, Tok07VersionMarkers) {
  EXPECT_NE(ClassV16(0x10D4A) & kLetter, 0);  // Garay, new in 16.0
  EXPECT_EQ(ClassV16(0x10940) & kLetter, 0);  // Sidetic, new in 17.0
  EXPECT_NE(ClassV16(0x85) & kWhiteSpace, 0);
  EXPECT_EQ(ClassV16(0xFEFF) & kWhiteSpace, 0);
  EXPECT_EQ(ClassV16(0x200B) & kWhiteSpace, 0);
  EXPECT_NE(ClassV16(0x200D) & kWord, 0);  // Join_Control
  EXPECT_EQ(ClassV16(0xB2) & kWord, 0);    // No is not \w of the regex crate
  EXPECT_EQ(ClassV16(0x110000), 0);
}

TEST(Numeric, Tok07Unicode17) {
  EXPECT_TRUE(IsNumericV17('7'));
  EXPECT_TRUE(IsNumericV17(0xB2));
  EXPECT_TRUE(IsNumericV17(0x2167));
  EXPECT_TRUE(IsNumericV17(0x11DE0));  // Tolong Siki digit zero, new in 17.0
  EXPECT_FALSE(IsNumericV17('a'));
  EXPECT_EQ(ClassV16(0x11DE0) & kNumber, 0);
}

TEST(Normalization, Tok07Unicode9) {
  EXPECT_EQ(CombiningClassV9(0x301), 230);
  EXPECT_EQ(CombiningClassV9(0x1ABF), 0);  // newer than 9.0: inert
  EXPECT_EQ(ComposeV9('e', 0x301), U'\u00E9');
  EXPECT_EQ(ComposeV9(0x1100, 0x1161), U'\uAC00');
  EXPECT_EQ(ComposeV9(0xAC00, 0x11A8), U'\uAC01');
  EXPECT_EQ(ComposeV9(0xAC00, 0x11A7), 0u);
  EXPECT_EQ(ComposeV9(0x0915, 0x093C), 0u);  // an excluded composition
  ASSERT_EQ(DecompositionV9(0x1E69).size(), 3u);
  EXPECT_EQ(DecompositionV9(0x1E69)[1], 0x323u);
  EXPECT_TRUE(DecompositionV9('a').empty());
}

}  // namespace
}  // namespace slm::unicode
