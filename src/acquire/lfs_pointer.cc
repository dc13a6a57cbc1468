#include "acquire/lfs_pointer.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/checked.h"

namespace slm::acquire {
namespace {

constexpr size_t kMaxPointerBytes = 1023;
constexpr std::string_view kVersionLine = "version https://git-lfs.github.com/spec/v1";
constexpr std::string_view kOidPrefix = "\noid sha256:";
constexpr std::string_view kSizePrefix = "\nsize ";
constexpr std::array<std::string_view, 3> kAnyVersion = {
    kVersionLine, "version https://hawser.github.com/spec/v1", "version http://git-media.io/v/2"};

std::unexpected<Error> Refuse(size_t at, std::string message) {
  return Fail(MakeError(ErrorCode::kLfsNoncanonical, std::move(message)).At(at));
}

// Moves past `expected`, or fails at the first byte that differs.
Status Expect(std::string_view text, size_t* at, std::string_view expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (*at + i < text.size() && text[*at + i] == expected[i]) continue;
    return Refuse(*at + i, "not the canonical form of a Git LFS pointer");
  }
  *at += expected.size();
  return {};
}

}  // namespace

bool LooksLikeLfsPointer(ByteSpan whole_file) {
  const std::string_view text = AsText(whole_file);
  return text.size() <= kMaxPointerBytes &&
         std::any_of(kAnyVersion.begin(), kAnyVersion.end(),
                     [&](std::string_view v) { return text.starts_with(v); });
}

std::string EncodeLfsPointer(const LfsPointer& pointer) {
  return std::string(kVersionLine) + std::string(kOidPrefix) + ToHex(pointer.oid) + std::string(kSizePrefix) +
         std::to_string(pointer.size) + "\n";
}

Result<LfsPointer> ParseLfsPointer(ByteSpan whole_file) {
  const std::string_view text = AsText(whole_file);
  if (text.size() > kMaxPointerBytes)
    return Refuse(kMaxPointerBytes, "a Git LFS pointer has at most 1,023 bytes");
  LfsPointer pointer;
  size_t at = 0;
  SLM_TRY(Expect(text, &at, kVersionLine));
  SLM_TRY(Expect(text, &at, kOidPrefix));
  for (size_t i = at; i < at + 64; ++i) {
    const bool is_hex =
        i < text.size() && ((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f'));
    if (!is_hex) return Refuse(i, "an oid has 64 lower-case hexadecimal digits");
  }
  if (!HashFromHex(text.substr(at, 64), &pointer.oid)) return Refuse(at, "an oid has 64 hexadecimal digits");
  at += 64;
  SLM_TRY(Expect(text, &at, kSizePrefix));
  const size_t size_at = at;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    const auto tens = CheckedMul(pointer.size, 10);
    const auto value = tens ? CheckedAdd(*tens, static_cast<uint64_t>(text[at] - '0')) : std::nullopt;
    if (!value) return Refuse(size_at, "the size does not fit 64 bits");
    pointer.size = *value;
  }
  if (at == size_at || text[size_at] == '0') {
    return Refuse(size_at, "the size is a decimal number above 0 without sign or leading zero");
  }
  SLM_TRY(Expect(text, &at, "\n"));
  if (at != text.size()) return Refuse(at, "bytes after a Git LFS pointer");
  return pointer;
}

}  // namespace slm::acquire
