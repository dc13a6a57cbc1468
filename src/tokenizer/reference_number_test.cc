#include "tokenizer/reference_number.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tokenizer/tokenizer.h"

namespace slm::tokenizer {
namespace {

// Given by tokenizers 0.23.3: the scores that a Unigram model of these numbers writes back.
TEST(ReferenceNumber, Tok10ReadsAsTheReferenceDoes) {
  struct Case {
    const char* text;
    double value;
  };
  const Case cases[] = {
      {"-7.8619232177734375", -0x1.f729bffffffffp+2},  // correctly rounded: ...c00000000p+2
      {"-11.265965461730957", -0x1.6882c9fffffffp+3},
      {"-2.1267833709716797", -0x1.103a700000000p+1},
      {"0", 0.0},
      {"-0", -0.0},
      {"-5", -5.0},
      {"0.1", 0x1.999999999999ap-4},
      {"0.30000000000000004", 0x1.3333333333334p-2},
      {"1844674407370955161.5", 0x1.999999999999ap+60},
      {"1844674407370955161.6", 0x1.999999999999ap+60},
      {"18446744073709551615", 0x1p+64},
      {"18446744073709551616", 0x1p+64},
      {"184467440737095516155.25", 0x1.4p+67},
      {"123456789012345678901234567890.5e-20", 0x1.26580b487e6b7p+30},
      {"1e-400", 0.0},
      {"1e-320", 0x0.00000000007e8p-1022},
      {"123456789e-330", 0x0.0000000000019p-1022},
      {"5e-324", 0x0.0000000000001p-1022},
      {"1.7976931348623157e308", 0x1.fffffffffffffp+1023},
      {"0e999", 0.0},
      {"1e22", 0x1.0f0cf064dd592p+73},
      {"1e23", 0x1.52d02c7e14af6p+76},
      {"9007199254740993", 0x1p+53},
      {"9007199254740993.0", 0x1.0000000000001p+53},
      {"1.00000000000000000000000000001", 1.0},
      {"-1.5E+3", -1500.0},
      {"1e-99999999999", 0.0},
  };
  for (const Case& one : cases) {
    const auto read = ReadAsReference(one.text);
    ASSERT_TRUE(read.has_value()) << one.text;
    EXPECT_EQ(*read, one.value) << one.text;
    EXPECT_EQ(std::signbit(*read), std::signbit(one.value)) << one.text;
  }
  for (const char* text : {"1e309", "-1e400", "1e99999999999", "1797693134862315700000e300"}) {
    EXPECT_FALSE(ReadAsReference(text).has_value()) << text;
  }
}

// Scores of XLNet's pieces: correctly rounded, both ways through "rrr" cost the same, and the other one would
// win.
TEST(ReferenceNumber, Tok10TheLastBitDecidesBetweenPaths) {
  const auto loaded =
      Tokenizer::FromJson(R"({"version":"1.0","added_tokens":[],"model":{"type":"Unigram","unk_id":0,
      "vocab":[["<unk>",0.0],["_",-2.1267833709716797],["r",-7.8619232177734375],["rr",-11.265965461730957]]}})");
  ASSERT_TRUE(loaded.has_value()) << loaded.error().ToString();
  EXPECT_EQ((*loaded)->Encode("_rrr")->ids, (std::vector<uint32_t>{1, 3, 2}));
}

}  // namespace
}  // namespace slm::tokenizer
