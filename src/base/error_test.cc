#include "base/error.h"

#include <gtest/gtest.h>

#include <set>

namespace slm {
namespace {

TEST(ErrorTable, NumbersRiseAndNamesAreUnique) {
  size_t count = 0;
  const ErrorInfo* table = ErrorTable(&count);
  ASSERT_GT(count, 100u);
  std::set<std::string_view> names;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) EXPECT_LT(table[i - 1].number, table[i].number);
    EXPECT_TRUE(names.insert(table[i].name).second) << table[i].name;
    EXPECT_FALSE(table[i].meaning.empty());
    EXPECT_EQ(&Info(table[i].code), &table[i]);
    for (const char c : table[i].name) {
      EXPECT_TRUE((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_') << table[i].name;
    }
  }
}

TEST(ErrorTable, StableNumbers) {
  EXPECT_EQ(Info(ErrorCode::kSt015).name, "ST-015");
  EXPECT_EQ(Info(ErrorCode::kSt015).number, 214);
  EXPECT_EQ(Info(ErrorCode::kSt015).area, ErrorArea::kInput);
  EXPECT_EQ(Info(ErrorCode::kCborNonShortest).name, "NON_SHORTEST");
  EXPECT_EQ(Info(ErrorCode::kStoreLocked).area, ErrorArea::kEnvironment);
  EXPECT_EQ(Info(static_cast<ErrorCode>(65535)).name, "INTERNAL");
}

TEST(Error, PrintsAsTheContractSays) {
  EXPECT_EQ(MakeError(ErrorCode::kSt015, "m").In("f.bin").At(8).ToString(), "error ST-015 at f.bin:8: m");
  EXPECT_EQ(MakeError(ErrorCode::kSt015, "m").In("f.bin").ToString(), "error ST-015 at f.bin: m");
  EXPECT_EQ(MakeError(ErrorCode::kSt015, "m").At(0).ToString(), "error ST-015 at byte 0: m");
  EXPECT_EQ(MakeError(ErrorCode::kSt015, "m").ToString(), "error ST-015: m");
  EXPECT_EQ(MakeError(ErrorCode::kSt015, "m").Field("k").ToString(), "error ST-015: m (k)");
  EXPECT_EQ(MakeError(ErrorCode::kSt015, "k: m").Field("k").ToString(), "error ST-015: k: m");
  Error nested = MakeError(ErrorCode::kSlmManifestP0, "m");
  nested.cause = ErrorCode::kCborNonShortest;
  EXPECT_EQ(nested.CodeText(), "SLM-MANIFEST-P0/NON_SHORTEST");
}

TEST(Error, InKeepsTheInnermostName) {
  EXPECT_EQ(MakeError(ErrorCode::kIo, "m").In("inner").In("outer").file, "inner");
}

Result<int> Half(int value) {
  if (value % 2 != 0) return Fail(MakeError(ErrorCode::kSchemaValue, "odd").Field("value"));
  return value / 2;
}
Result<int> Quarter(int value) {
  SLM_ASSIGN(const int half, Half(value));
  SLM_ASSIGN(const int quarter, Half(half));
  return quarter;
}
Status Check(int value) {
  SLM_TRY(Quarter(value));
  return {};
}

TEST(Error, MacrosPassErrorsOn) {
  EXPECT_EQ(Quarter(12).value(), 3);
  EXPECT_EQ(Quarter(6).error().code, ErrorCode::kSchemaValue);
  EXPECT_TRUE(Check(4).has_value());
  EXPECT_EQ(Check(6).error().field, "value");
}

}  // namespace
}  // namespace slm
