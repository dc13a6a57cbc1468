#include "codec/crc32c.h"

#include <gtest/gtest.h>

namespace slm {
namespace {

TEST(Crc32c, Rfc3720Vectors) {  // RFC 3720 appendix B.4, and the usual check value
  EXPECT_EQ(Crc32c({}), 0u);
  EXPECT_EQ(Crc32c(AsBytes("123456789")), 0xE3069283u);
  EXPECT_EQ(Crc32c(Bytes(32, 0)), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(Bytes(32, 0xFF)), 0x62A8AB43u);
  Bytes rising;
  Bytes falling;
  for (uint8_t i = 0; i < 32; ++i) {
    rising.push_back(i);
    falling.push_back(static_cast<uint8_t>(31 - i));
  }
  EXPECT_EQ(Crc32c(rising), 0x46DD794Eu);
  EXPECT_EQ(Crc32c(falling), 0x113FDB5Cu);
}

}  // namespace
}  // namespace slm
