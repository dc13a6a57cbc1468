#include "codec/sha256.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "codec/sha256_beside.h"
#include "codec/sha256_portable.h"

namespace slm {
namespace {

struct Vector {
  std::string message;
  const char* digest;
};

// FIPS 180-4 examples (NIST "SHA256.pdf", "SHA2_Additional.pdf") and the empty message.
const std::vector<Vector>& Vectors() {
  static const auto* const kVectors = new std::vector<Vector>{
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"\xbd", "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b"},
      {"\xc9\x8c\x8e\x55", "7abc22c0ae5af26ce93dbb94433a0e0b2e119d014f8e7f65bd56c61ccccd9504"},
      {std::string(55, '\0'), "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7"},
      {std::string(56, '\0'), "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb"},
      {std::string(57, '\0'), "65a16cb7861335d5ace3c60718b5052e44660726da4cd13bb745381b235a1785"},
      {std::string(64, '\0'), "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b"},
      {std::string(1000, '\0'), "541b3e9daa09b20bf85fa273e5cbd3e80185aa4ec298e765db87742b70138a53"},
      {std::string(1000, 'A'), "c2e686823489ced2017f6059b8b239318b6364f6dcd835d0a519105a1eadd6e4"},
      {std::string(1005, 'U'), "f4d62ddec0f3dd90ea1380fa16a5ff8dc4c54b21740650f24afc4120903552b0"},
      {std::string(1000000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
      {std::string(1000000, '\0'), "d29751f2649b32ff572b5e0a9f541ea660a50f94ff0beedfb0b692b924cc8025"},
  };
  return *kVectors;
}

TEST(Sha256, NistVectors) {
  for (const Vector& vector : Vectors()) {
    EXPECT_EQ(ToHex(Sha256Of(AsBytes(vector.message))), vector.digest) << vector.message.size();
  }
}

TEST(Sha256, AnySplitGivesTheSameDigest) {
  std::string message;
  for (int i = 0; i < 300; ++i) message.push_back(static_cast<char>(i * 7));
  const Hash256 whole = Sha256Of(AsBytes(message));
  for (size_t cut = 0; cut <= message.size(); ++cut) {
    Sha256 hash;
    hash.Update(AsBytes(message).first(cut));
    hash.Update({});
    hash.Update(AsBytes(message).subspan(cut));
    EXPECT_EQ(hash.Finish(), whole) << cut;
  }
}

TEST(Sha256, OneShotKeepsNoStateBetweenCalls) {
  const Hash256 first = Sha256Of(AsBytes("abc"));
  EXPECT_NE(ToHex(Sha256Of(AsBytes("abd"))), ToHex(first));
  EXPECT_EQ(Sha256Of(AsBytes("abc")), first);
}

// More than its eight blocks of 1 MiB, so that each is used again; pieces that do and do not fit them.
TEST(Sha256Beside, AgreesWithTheOneShot) {
  Bytes bytes((size_t{11} << 20) + 12345);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>((i * 2654435761u) >> 24);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1} << 20, (size_t{1} << 20) + 1, bytes.size()}) {
    const ByteSpan whole = ByteSpan(bytes).first(size);
    for (const size_t piece : {size_t{999}, size_t{1} << 20, size_t{3} << 20}) {
      Sha256Beside hash;
      for (ByteSpan rest = whole; !rest.empty(); rest = rest.subspan(std::min(piece, rest.size()))) {
        Bytes copy(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(std::min(piece, rest.size())));
        hash.Update(copy);
        std::fill(copy.begin(), copy.end(), uint8_t{0xff});  // the caller's again
      }
      EXPECT_EQ(hash.Finish(), Sha256Of(whole)) << size << " in pieces of " << piece;
    }
  }
}

TEST(PortableSha256, AgreesWithOpenSslForEveryLengthAndCut) {
  std::mt19937 random(3);
  for (size_t length = 0; length < 400; ++length) {
    std::string message;
    while (message.size() < length) message.push_back(static_cast<char>(random()));
    PortableSha256 hash;
    for (size_t at = 0; at < length;) {
      const size_t piece = std::min<size_t>(random() % 130, length - at);
      hash.Update(AsBytes(message).subspan(at, piece));
      at += piece;
    }
    EXPECT_EQ(hash.Finish(), Sha256Of(AsBytes(message))) << length;
  }
}

TEST(PortableSha256, NistVectors) {
  for (const Vector& vector : Vectors()) {
    PortableSha256 hash;
    hash.Update(AsBytes(vector.message));
    EXPECT_EQ(ToHex(hash.Finish()), vector.digest) << vector.message.size();
  }
}

}  // namespace
}  // namespace slm
