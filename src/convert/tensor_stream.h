// Streams one tensor into its layout, refusing values that are not finite. Internal to src/convert.
#ifndef SLM_CONVERT_TENSOR_STREAM_H_
#define SLM_CONVERT_TENSOR_STREAM_H_

#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "slm_file/artifact.h"
#include "slm_file/artifact_writer.h"

namespace slm::convert {

// Index of the first element, in row-major order, that is NaN or infinite.
[[nodiscard]] std::optional<uint64_t> FirstNonfinite(ByteSpan bytes, DType dtype);

// Hands the tensor to the sink as `layout` stores it: rows16 in groups of 16 rows, the lanes of the
// last group that hold no row filled with zeros; row-major unchanged. REQUIRES: `bytes` are the
// row-major elements of `shape`. Error: NONFINITE, byte_offset = offset in `bytes`.
[[nodiscard]] Status StreamTensor(ByteSpan bytes, const std::vector<uint64_t>& shape, DType dtype,
                                  Layout layout, const BlobSink& sink);

}  // namespace slm::convert

#endif  // SLM_CONVERT_TENSOR_STREAM_H_
