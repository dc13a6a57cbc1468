#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "unicode/bert_v8_0.h"
#include "unicode/case_folding_v16_0.h"
#include "unicode/classes_v16_0.h"
#include "unicode/grapheme_v17_0.h"
#include "unicode/lowercase_v17_0.h"
#include "unicode/normalization_v9_0.h"
#include "unicode/numeric_v17_0.h"
#include "unicode/properties_v16_0.h"
#include "unicode/scripts_v9_0.h"

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

// Facts of Unicode 8.0 and 9.0 that later versions changed, and marks of the others.
TEST(Bert, Tok07Unicode8) {
  EXPECT_NE(BertClassV8(0x166D) & kPunctuationV8, 0);   // So since 12.0
  EXPECT_NE(BertClassV8(0x111C9) & kPunctuationV8, 0);  // Mn since 11.0
  EXPECT_NE(BertClassV8(0x301) & kNonspacingMarkV8, 0);
  EXPECT_EQ(BertClassV8(0x0897), 0);  // new in 16.0
  EXPECT_NE(BertClassV8(0xAD) & kControlV8, 0);
  EXPECT_EQ(BertClassV8(0x378), 0);  // unassigned
}

TEST(Normalization, Tok07Unicode9Compatibility) {
  ASSERT_EQ(CompatibleDecompositionV9(0xFB01).size(), 2u);
  EXPECT_EQ(CompatibleDecompositionV9(0xFB01)[1], char32_t{'i'});
  EXPECT_TRUE(DecompositionV9(0xFB01).empty());
  EXPECT_EQ(CompatibleDecompositionV9(0xFDFA).size(), 18u);
  EXPECT_TRUE(CompatibleDecompositionV9(0x32FF).empty());  // new in 12.1
  EXPECT_TRUE(IsMarkV9(0x903));
  EXPECT_FALSE(IsMarkV9(0x1ABF));  // new in 13.0
}

TEST(Scripts, Tok07Unicode9) {
  EXPECT_EQ(ScriptGroupV9(0x304B), ScriptGroupV9(0x4E00));
  EXPECT_EQ(ScriptGroupV9(0x30FC), ScriptGroupV9(0x4E00));
  EXPECT_NE(ScriptGroupV9('a'), ScriptGroupV9(0x3B1));
  EXPECT_EQ(ScriptGroupV9(' '), 0);
  EXPECT_EQ(ScriptGroupV9(0x860), 0);  // new in 10.0
}

TEST(Lowercase, Tok07Unicode17) {
  EXPECT_EQ(LowercaseV17('A'), char32_t{'a'});
  EXPECT_EQ(LowercaseV17(0x3A3), 0x3C3u);
  EXPECT_EQ(LowercaseV17(0x130), char32_t{'i'});
  EXPECT_EQ(LowercaseV17(0x1C89), 0x1C8Au);  // new in 16.0
  EXPECT_EQ(LowercaseV17(0x4E00), 0x4E00u);
}

TEST(Grapheme, Tok07Unicode17) {
  const auto ends = [](std::initializer_list<char32_t> text) {
    const std::vector<char32_t> scalars(text);
    std::vector<size_t> out;
    for (size_t at = 0; at < scalars.size();) out.push_back(at = GraphemeEndV17(scalars, at));
    return out;
  };
  using Ends = std::vector<size_t>;
  EXPECT_EQ(ends({'\r', '\n', 'a'}), (Ends{2, 3}));
  EXPECT_EQ(ends({'a', 0x301, 0x323, 'b'}), (Ends{3, 4}));
  EXPECT_EQ(ends({0x1100, 0x1161, 0x11A8, 0xAC00, 0x11A8}), (Ends{3, 5}));
  EXPECT_EQ(ends({0x1F1E9, 0x1F1EA, 0x1F1E9, 0x1F1EA, 0x1F1E9}), (Ends{2, 4, 5}));
  EXPECT_EQ(ends({0x1F468, 0x200D, 0x1F469, 0x200D, 'a'}), (Ends{4, 5}));
  EXPECT_EQ(ends({0x915, 0x94D, 0x937}), (Ends{3}));  // GB9c
}

TEST(Properties, Tok07Unicode16) {
  EXPECT_FALSE(PropertyRangesV16("nosuchthing").has_value());
  ASSERT_TRUE(PropertyRangesV16("han").has_value());
  EXPECT_EQ(PropertyRangesV16("lu")->size(), PropertyRangesV16("uppercaseletter")->size());
  EXPECT_EQ((*PropertyRangesV16("whitespace"))[0], 9u);
  EXPECT_EQ(FoldV16('K'), char32_t{'k'});
  EXPECT_EQ(FoldV16(0x212A), char32_t{'k'});
  EXPECT_EQ(FoldV16(0xDF), 0xDFu);  // only in full
}

}  // namespace
}  // namespace slm::unicode
