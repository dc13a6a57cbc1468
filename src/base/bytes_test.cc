#include "base/bytes.h"

#include <gtest/gtest.h>

#include "base/checked.h"

namespace slm {
namespace {

TEST(LittleEndian, StoresLowByteFirst) {  // ID-05
  Bytes out;
  AppendLe<uint32_t>(&out, 0x01020304u);
  AppendLe<uint16_t>(&out, 0x0506u);
  EXPECT_EQ(ToHex(out), "040302010605");
  EXPECT_EQ(LoadLe<uint32_t>(out.data()), 0x01020304u);
  EXPECT_EQ(LoadLe<uint16_t>(out.data() + 4), 0x0506u);
  uint8_t eight[8];
  StoreLe<uint64_t>(eight, 0x8000000000000001u);
  EXPECT_EQ(ToHex(eight), "0100000000000080");
  EXPECT_EQ(LoadLe<uint64_t>(eight), 0x8000000000000001u);
}

TEST(Hex, InverseIsStrict) {
  Bytes out{7};
  EXPECT_TRUE(FromHex("", &out));
  EXPECT_TRUE(out.empty());
  EXPECT_TRUE(FromHex("00ff7a", &out));
  EXPECT_EQ(out, (Bytes{0, 255, 0x7a}));
  for (const char* bad : {"0", "0g", "FF", " 0", "0x"}) {
    EXPECT_FALSE(FromHex(bad, &out)) << bad;
  }
  EXPECT_EQ(out, (Bytes{0, 255, 0x7a})) << "a failed parse leaves its output alone";
}

TEST(Hex, HashNeedsSixtyFourDigits) {
  Hash256 hash{};
  EXPECT_FALSE(HashFromHex(std::string(63, '0'), &hash));
  EXPECT_FALSE(HashFromHex(std::string(65, '0'), &hash));
  EXPECT_FALSE(HashFromHex(std::string(63, '0') + "A", &hash));
  const std::string text = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
  ASSERT_TRUE(HashFromHex(text, &hash));
  EXPECT_EQ(ToHex(hash), text);
}

TEST(Base64, Rfc4648Vectors) {  // RFC 4648 section 10
  const std::pair<const char*, const char*> kVectors[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, encoded] : kVectors) {
    EXPECT_EQ(ToBase64(AsBytes(plain)), encoded);
    Bytes out;
    ASSERT_TRUE(FromBase64(encoded, &out)) << encoded;
    EXPECT_EQ(AsText(out), plain);
  }
}

TEST(Base64, RefusesOtherSpellings) {
  Bytes out;
  for (const char* bad : {"Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zm 9v", "Zm9v\n",
                          "====", "=g==", "Zg==Zg==", "Zm-v", "Z===", "==", "="}) {
    EXPECT_FALSE(FromBase64(bad, &out)) << bad;
  }
}

TEST(Base64, EveryByteRoundTrips) {
  Bytes all;
  for (int i = 0; i < 256; ++i) {
    all.push_back(static_cast<uint8_t>(i * 167));
    Bytes back;
    ASSERT_TRUE(FromBase64(ToBase64(all), &back));
    EXPECT_EQ(back, all);
  }
}

TEST(Checked, ReportsOverflow) {
  EXPECT_EQ(CheckedAdd(UINT64_MAX, 0), UINT64_MAX);
  EXPECT_EQ(CheckedAdd(UINT64_MAX, 1), std::nullopt);
  EXPECT_EQ(CheckedMul(uint64_t{1} << 32, uint64_t{1} << 31), uint64_t{1} << 63);
  EXPECT_EQ(CheckedMul(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(CheckedAlignUp(0, 64), 0u);
  EXPECT_EQ(CheckedAlignUp(1, 64), 64u);
  EXPECT_EQ(CheckedAlignUp(UINT64_MAX - 63, 64), UINT64_MAX - 63);
  EXPECT_EQ(CheckedAlignUp(UINT64_MAX - 62, 64), std::nullopt);
}

}  // namespace
}  // namespace slm
