// Joins the parts of observations that come chunk by chunk into whole arrays, in the layouts of
// the golden container: [T, ...]; scores and probabilities [n_heads, T (T + 1) / 2]; the mask
// [T, T] in bits, each row padded to whole bytes, lowest bit first.
//
// One recorder for one sequence that starts at position 0. Used by one thread.
#ifndef SLM_RUNTIME_RECORDER_H_
#define SLM_RUNTIME_RECORDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "runtime/session.h"

namespace slm {

struct RecordedArray {
  std::string name;
  int layer = -1;
  std::vector<uint64_t> shape;
  std::vector<float> values;  // empty for the mask
  Bytes mask_bits;            // of the mask only
};

class ObservationRecorder {
 public:
  // A tap that records into this object, which must outlive it.
  [[nodiscard]] Tap MakeTap();
  // The arrays in order of first appearance, T = positions seen. Leaves the recorder empty.
  [[nodiscard]] std::vector<RecordedArray> Take();

 private:
  struct Part {
    uint64_t first_position;
    uint64_t n_positions;
    std::vector<float> values;
    std::vector<uint8_t> mask;
  };
  struct Entry {
    std::string name;
    int layer;
    std::vector<uint64_t> shape;
    bool is_packed;
    bool is_mask;
    std::vector<Part> parts;
  };
  void Add(const Observation& observation);
  [[nodiscard]] static RecordedArray Join(Entry entry);
  std::vector<Entry> entries_;
};

}  // namespace slm

#endif  // SLM_RUNTIME_RECORDER_H_
