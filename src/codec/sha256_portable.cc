#include "codec/sha256_portable.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace slm {
namespace {

// First 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t LoadBigEndian(const uint8_t* bytes) {
  return (uint32_t{bytes[0]} << 24) | (uint32_t{bytes[1]} << 16) | (uint32_t{bytes[2]} << 8) | bytes[3];
}

}  // namespace

void PortableSha256::Compress(const uint8_t* blocks, size_t n_blocks) {
  std::array<uint32_t, 64> w;
  for (; n_blocks > 0; --n_blocks, blocks += 64) {
    for (size_t t = 0; t < 16; ++t) w[t] = LoadBigEndian(blocks + 4 * t);
    for (size_t t = 16; t < 64; ++t) {
      const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
      const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
      w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (size_t t = 0; t < 64; ++t) {
      const uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const uint32_t temp1 = h + sum1 + ((e & f) ^ (~e & g)) + kRound[t] + w[t];
      const uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const uint32_t temp2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + temp1;
      d = c;
      c = b;
      b = a;
      a = temp1 + temp2;
    }
    const std::array<uint32_t, 8> change = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i) state_[i] += change[i];
  }
}

void PortableSha256::Update(ByteSpan bytes) {
  const size_t held = n_bytes_ % 64;
  n_bytes_ += bytes.size();
  if (held > 0) {
    const size_t taken = std::min(bytes.size(), 64 - held);
    if (taken > 0) std::memcpy(block_.data() + held, bytes.data(), taken);
    bytes = bytes.subspan(taken);
    if (held + taken < 64) return;
    Compress(block_.data(), 1);
  }
  Compress(bytes.data(), bytes.size() / 64);
  bytes = bytes.subspan(bytes.size() / 64 * 64);
  if (!bytes.empty()) std::memcpy(block_.data(), bytes.data(), bytes.size());
}

Hash256 PortableSha256::Finish() {
  const uint64_t n_bits = n_bytes_ * 8;
  std::array<uint8_t, 72> tail = {0x80};
  const size_t n_zeros =
      (119 - n_bytes_ % 64) % 64;  // after the 0x80, up to eight bytes before a block's end
  for (size_t i = 0; i < 8; ++i) tail[1 + n_zeros + i] = static_cast<uint8_t>(n_bits >> (56 - 8 * i));
  Update(ByteSpan(tail.data(), 1 + n_zeros + 8));
  Hash256 digest;
  for (size_t i = 0; i < 32; ++i) digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

}  // namespace slm
