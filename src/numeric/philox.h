// Philox4x32-10: a counter-based random number generator. Block number `counter` of the sequence
// `key` is a pure function of the two, so that any draw can be made again on its own.
//
// Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011; vectors of
// its library Random123 1.14 in philox_test.cc.
#ifndef SLM_NUMERIC_PHILOX_H_
#define SLM_NUMERIC_PHILOX_H_

#include <array>
#include <cstdint>

namespace slm::numeric {

using PhiloxCounter = std::array<uint32_t, 4>;  // word 0 first
using PhiloxKey = std::array<uint32_t, 2>;

[[nodiscard]] constexpr PhiloxCounter Philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

}  // namespace slm::numeric

#endif  // SLM_NUMERIC_PHILOX_H_
