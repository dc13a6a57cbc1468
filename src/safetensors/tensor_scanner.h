// Values of a safetensors file, looked at while the file streams by (ST-020).
//
// Fed the file's bytes once and in order, in blocks of any size, it refuses BOOL bytes other than
// 0 and 1 and counts NaN and infinity in every float tensor. A nonfinite value is evidence here,
// not a refusal: the gate for model weights stands at conversion (OPS-03). Memory is flat: a few
// words per tensor and at most one unfinished element. One thread at a time.
#ifndef SLM_SAFETENSORS_TENSOR_SCANNER_H_
#define SLM_SAFETENSORS_TENSOR_SCANNER_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "safetensors/header.h"

namespace slm::safetensors {

// How the bits of a dtype say NaN and infinity.
enum class FloatFormat : uint8_t {
  kNone,
  kF16,
  kBf16,
  kF32,
  kF64,
  kC64,     // two F32; one element
  kF8E5m2,  // IEEE-like: infinities and NaNs
  kF8E4m3,  // NaN only, 0x7f and 0xff
  kF8Fnuz,  // NaN only, 0x80
  kF8E8m0,  // NaN only, 0xff
};
[[nodiscard]] FloatFormat FloatFormatOf(std::string_view dtype);

struct Census {
  uint64_t n_nan = 0;
  uint64_t n_inf = 0;
  std::optional<uint64_t> first_nonfinite;  // element index in row-major order
  friend bool operator==(const Census&, const Census&) = default;
};

class TensorScanner {
 public:
  // REQUIRES: header came from ParseHeader (its tensors tile the data area). Keeps a copy of what
  // it needs, so the header may go away.
  explicit TensorScanner(const Header& header);

  // The next bytes of the file, beginning with the file's first byte. Errors: ST-020 with the
  // byte's offset in the file.
  [[nodiscard]] Status Append(ByteSpan bytes);

  // One for each tensor, in the header's order; complete once the whole file was fed.
  [[nodiscard]] const std::vector<Census>& census() const { return census_; }

 private:
  struct Span {
    uint64_t begin;  // in the file
    uint64_t end;
    size_t tensor_index;
    FloatFormat format;
    bool is_bool;
    uint32_t element_bytes;
    std::string name;
  };
  Status Scan(const Span& span, uint64_t offset, ByteSpan bytes);
  void ScanFloats(const Span& span, uint64_t offset, ByteSpan bytes);
  void Count(const Span& span, uint64_t first_element, ByteSpan whole_elements);

  std::vector<Span> spans_;  // ascending in the file; tensors with nothing to look at left out
  std::vector<Census> census_;
  size_t next_span_ = 0;
  uint64_t position_ = 0;
  std::array<uint8_t, 8> carry_{};
  size_t carry_bytes_ = 0;
};

}  // namespace slm::safetensors

#endif  // SLM_SAFETENSORS_TENSOR_SCANNER_H_
