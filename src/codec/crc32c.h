// CRC-32C (Castagnoli; RFC 3720 appendix B.4): guards short records against torn writes. It is no
// proof of identity; SHA-256 is.
#ifndef SLM_CODEC_CRC32C_H_
#define SLM_CODEC_CRC32C_H_

#include <cstdint>

#include "base/bytes.h"

namespace slm {

[[nodiscard]] uint32_t Crc32c(ByteSpan bytes);

}  // namespace slm

#endif  // SLM_CODEC_CRC32C_H_
