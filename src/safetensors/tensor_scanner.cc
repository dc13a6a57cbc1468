#include "safetensors/tensor_scanner.h"

#include <algorithm>
#include <cstring>

namespace slm::safetensors {
namespace {

enum class Class : uint8_t { kFinite, kNan, kInf };

// IEEE layout: all exponent bits set means infinity (fraction 0) or NaN.
template <typename T, T kExponent, T kFraction>
Class ClassifyIeee(const uint8_t* from) {
  const T bits = LoadLe<T>(from);
  if ((bits & kExponent) != kExponent) return Class::kFinite;
  return (bits & kFraction) == 0 ? Class::kInf : Class::kNan;
}

Class ClassifyF32(const uint8_t* from) {
  return ClassifyIeee<uint32_t, 0x7f800000u, 0x007fffffu>(from);
}

Class Classify(FloatFormat format, const uint8_t* from) {
  switch (format) {
    case FloatFormat::kF16:
      return ClassifyIeee<uint16_t, 0x7c00, 0x03ff>(from);
    case FloatFormat::kBf16:
      return ClassifyIeee<uint16_t, 0x7f80, 0x007f>(from);
    case FloatFormat::kF32:
      return ClassifyF32(from);
    case FloatFormat::kF64:
      return ClassifyIeee<uint64_t, 0x7ff0000000000000u, 0x000fffffffffffffu>(from);
    case FloatFormat::kC64:
      return std::max(ClassifyF32(from), ClassifyF32(from + 4), [](Class a, Class b) {
        const auto rank = [](Class c) { return c == Class::kNan ? 2 : c == Class::kInf ? 1 : 0; };
        return rank(a) < rank(b);
      });
    case FloatFormat::kF8E5m2:
      return ClassifyIeee<uint8_t, 0x7c, 0x03>(from);
    case FloatFormat::kF8E4m3:
      return (*from & 0x7f) == 0x7f ? Class::kNan : Class::kFinite;
    case FloatFormat::kF8Fnuz:
      return *from == 0x80 ? Class::kNan : Class::kFinite;
    case FloatFormat::kF8E8m0:
      return *from == 0xff ? Class::kNan : Class::kFinite;
    case FloatFormat::kNone:
      break;
  }
  return Class::kFinite;
}

// Whether any element has all exponent bits set. Branch-free, so that it keeps up with hashing.
template <typename T, T kExponent>
bool AnyExponentFull(ByteSpan bytes) {
  unsigned any = 0;
  for (size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    any |= static_cast<unsigned>((LoadLe<T>(bytes.data() + i) & kExponent) == kExponent);
  }
  return any != 0;
}

bool MayHoldNonfinite(FloatFormat format, ByteSpan bytes) {
  switch (format) {
    case FloatFormat::kF16:
      return AnyExponentFull<uint16_t, 0x7c00>(bytes);
    case FloatFormat::kBf16:
      return AnyExponentFull<uint16_t, 0x7f80>(bytes);
    case FloatFormat::kF32:
    case FloatFormat::kC64:
      return AnyExponentFull<uint32_t, 0x7f800000u>(bytes);
    case FloatFormat::kF64:
      return AnyExponentFull<uint64_t, 0x7ff0000000000000u>(bytes);
    default:
      return true;
  }
}

}  // namespace

FloatFormat FloatFormatOf(std::string_view dtype) {
  if (dtype == "F16") return FloatFormat::kF16;
  if (dtype == "BF16") return FloatFormat::kBf16;
  if (dtype == "F32") return FloatFormat::kF32;
  if (dtype == "F64") return FloatFormat::kF64;
  if (dtype == "C64") return FloatFormat::kC64;
  if (dtype == "F8_E5M2") return FloatFormat::kF8E5m2;
  if (dtype == "F8_E4M3") return FloatFormat::kF8E4m3;
  if (dtype == "F8_E4M3FNUZ" || dtype == "F8_E5M2FNUZ") return FloatFormat::kF8Fnuz;
  if (dtype == "F8_E8M0") return FloatFormat::kF8E8m0;
  return FloatFormat::kNone;
}

TensorScanner::TensorScanner(const Header& header) : census_(header.tensors.size()) {
  for (size_t i = 0; i < header.tensors.size(); ++i) {
    const TensorInfo& tensor = header.tensors[i];
    const FloatFormat format = FloatFormatOf(tensor.dtype);
    const bool is_bool = tensor.dtype == "BOOL";
    if ((format == FloatFormat::kNone && !is_bool) || tensor.begin == tensor.end) continue;
    spans_.push_back({header.data_offset + tensor.begin, header.data_offset + tensor.end, i, format, is_bool,
                      *DtypeBits(tensor.dtype) / 8, tensor.name});
  }
  std::sort(spans_.begin(), spans_.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
}

Status TensorScanner::Append(ByteSpan bytes) {
  const uint64_t block_begin = position_;
  const uint64_t block_end = position_ + bytes.size();
  position_ = block_end;
  while (next_span_ < spans_.size() && spans_[next_span_].begin < block_end) {
    const Span& span = spans_[next_span_];
    const uint64_t begin = std::max(span.begin, block_begin);
    const uint64_t end = std::min(span.end, block_end);
    SLM_TRY(Scan(span, begin,
                 bytes.subspan(static_cast<size_t>(begin - block_begin), static_cast<size_t>(end - begin))));
    if (span.end > block_end) break;
    ++next_span_;
  }
  return {};
}

Status TensorScanner::Scan(const Span& span, uint64_t offset, ByteSpan bytes) {
  if (!span.is_bool) {
    ScanFloats(span, offset, bytes);
    return {};
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] <= 1) continue;
    return Fail(
        MakeError(ErrorCode::kSt020, "a BOOL element holds " + std::to_string(bytes[i]) + ", not 0 or 1")
            .At(offset + i)
            .Field(span.name));
  }
  return {};
}

void TensorScanner::ScanFloats(const Span& span, uint64_t offset, ByteSpan bytes) {
  uint64_t element = (offset - span.begin) / span.element_bytes;
  if (carry_bytes_ != 0) {
    const size_t take = std::min(bytes.size(), span.element_bytes - carry_bytes_);
    std::memcpy(carry_.data() + carry_bytes_, bytes.data(), take);
    carry_bytes_ += take;
    bytes = bytes.subspan(take);
    if (carry_bytes_ < span.element_bytes) return;
    Count(span, element, ByteSpan(carry_.data(), carry_bytes_));
    carry_bytes_ = 0;
    ++element;
  }
  const size_t whole = bytes.size() - bytes.size() % span.element_bytes;
  Count(span, element, bytes.first(whole));
  carry_bytes_ = bytes.size() - whole;
  std::memcpy(carry_.data(), bytes.data() + whole, carry_bytes_);
}

void TensorScanner::Count(const Span& span, uint64_t first_element, ByteSpan whole_elements) {
  constexpr size_t kRun = 4096;  // a multiple of every element size
  Census& census = census_[span.tensor_index];
  for (size_t at = 0; at < whole_elements.size(); at += kRun) {
    const ByteSpan run = whole_elements.subspan(at, std::min(kRun, whole_elements.size() - at));
    if (!MayHoldNonfinite(span.format, run)) continue;
    for (size_t i = 0; i < run.size(); i += span.element_bytes) {
      const Class kind = Classify(span.format, run.data() + i);
      if (kind == Class::kFinite) continue;
      ++(kind == Class::kNan ? census.n_nan : census.n_inf);
      if (!census.first_nonfinite) census.first_nonfinite = first_element + (at + i) / span.element_bytes;
    }
  }
}

}  // namespace slm::safetensors
