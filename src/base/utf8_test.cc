#include "base/utf8.h"

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace slm {
namespace {

std::string Raw(std::string_view hex) {
  Bytes bytes;
  EXPECT_TRUE(FromHex(hex, &bytes));
  return std::string(AsText(bytes));
}

TEST(Utf8, EveryScalarRoundTrips) {  // TOK-02
  for (char32_t scalar = 0; scalar <= 0x10FFFF; ++scalar) {
    if (scalar >= 0xD800 && scalar <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(&text, scalar);
    ASSERT_EQ(text.size(), scalar < 0x80 ? 1u : scalar < 0x800 ? 2u : scalar < 0x10000 ? 3u : 4u);
    ASSERT_FALSE(FindUtf8Fault(text)) << static_cast<uint32_t>(scalar);
    size_t position = 0;
    ASSERT_EQ(DecodeUtf8(text, &position), scalar);
    ASSERT_EQ(position, text.size());
    ASSERT_EQ(CountScalars(text), 1u);
    ASSERT_EQ(IncompleteUtf8Suffix(text), 0u);
  }
}

TEST(Utf8, EveryTwoByteSequence) {  // against the definition: only C2..DF 80..BF are characters
  for (unsigned a = 0x80; a < 0x100; ++a) {
    for (unsigned b = 0; b < 0x100; ++b) {
      const std::string text{static_cast<char>(a), static_cast<char>(b)};
      const bool good = a >= 0xC2 && a <= 0xDF && b >= 0x80 && b <= 0xBF;
      ASSERT_EQ(!FindUtf8Fault(text).has_value(), good) << a << " " << b;
    }
  }
}

struct FaultCase {
  const char* hex;
  size_t byte_offset;
  size_t length;
};

TEST(Utf8, FaultOffsetsAndMaximalSubparts) {  // Unicode 16 table 3-8 and its neighbours
  const FaultCase kCases[] = {
      {"80", 0, 1},
      {"41bf42", 1, 1},
      {"c0af", 0, 1},
      {"c1bf", 0, 1},
      {"c2", 0, 1},
      {"c241", 0, 1},
      {"e080af", 0, 1},
      {"e0a0", 0, 2},
      {"eda080", 0, 1},
      {"ed9f", 0, 2},
      {"e28241", 0, 2},
      {"efbf", 0, 2},
      {"f0808080", 0, 1},
      {"f09f98", 0, 3},
      {"f09f41", 0, 2},
      {"f4908080", 0, 1},
      {"f48f", 0, 2},
      {"f5808080", 0, 1},
      {"ff", 0, 1},
      {"fe", 0, 1},
      {"c3a9c3a9e2", 4, 1},
      {"4142434445464748c2", 8, 1},
      {"41424344454647f09f9880ff", 11, 1},
  };
  for (const FaultCase& c : kCases) {
    const auto fault = FindUtf8Fault(Raw(c.hex));
    ASSERT_TRUE(fault) << c.hex;
    EXPECT_EQ(fault->byte_offset, c.byte_offset) << c.hex;
    EXPECT_EQ(fault->length, c.length) << c.hex;
  }
  EXPECT_FALSE(FindUtf8Fault(std::string_view("a\0b", 3))) << "U+0000 is ordinary text (TOK-04)";
}

TEST(Utf8, SurrogatesAreIllFormed) {
  for (unsigned second = 0xA0; second <= 0xBF; ++second) {
    const std::string text{'\xED', static_cast<char>(second), '\x80'};
    EXPECT_TRUE(FindUtf8Fault(text));
  }
}

TEST(Utf8, IncompleteSuffix) {
  const std::string smile = Raw("f09f9880");
  for (size_t n = 0; n <= smile.size(); ++n) {
    EXPECT_EQ(IncompleteUtf8Suffix("ab" + smile.substr(0, n)), n == smile.size() ? 0 : n);
  }
  EXPECT_EQ(IncompleteUtf8Suffix(Raw("80")), 0u) << "a stray continuation byte cannot be completed";
  EXPECT_EQ(IncompleteUtf8Suffix(Raw("f5")), 0u);
  EXPECT_EQ(IncompleteUtf8Suffix(Raw("e080")), 0u) << "overlong already";
  EXPECT_EQ(IncompleteUtf8Suffix(Raw("c3a9")), 0u);
  EXPECT_EQ(IncompleteUtf8Suffix(Raw("c3a980")), 0u);
  EXPECT_EQ(IncompleteUtf8Suffix(Raw("f09f")), 2u);
  EXPECT_EQ(IncompleteUtf8Suffix(""), 0u);
}

TEST(Utf8, DisplayFormIsVisibleAndInjective) {  // ID-04
  EXPECT_EQ(EscapeForDisplay("plain text"), "plain text");
  EXPECT_EQ(EscapeForDisplay(Raw("c3a9")), Raw("c3a9"));
  EXPECT_EQ(EscapeForDisplay("a\nb"), "a\\x0Ab");
  EXPECT_EQ(EscapeForDisplay("a\\x0Ab"), "a\\\\x0Ab");
  EXPECT_EQ(EscapeForDisplay(Raw("61e280ae62")), "a\\u{202E}b") << "right-to-left override";
  EXPECT_EQ(EscapeForDisplay(Raw("efbbbf")), "\\u{FEFF}");
  EXPECT_EQ(EscapeForDisplay(Raw("c285")), "\\u{85}");
  EXPECT_EQ(EscapeForDisplay(Raw("f3a08081")), "\\u{E0001}");
  EXPECT_EQ(EscapeForDisplay(Raw("ff61f09f")), "\\xFFa\\xF0\\x9F");
  EXPECT_EQ(EscapeForDisplay(std::string_view("\0", 1)), "\\x00");
}

}  // namespace
}  // namespace slm
