#include "runtime/recorder.h"

#include <algorithm>
#include <utility>

namespace slm {
namespace {

uint64_t Triangle(uint64_t n) {
  return n * (n + 1) / 2;
}

}  // namespace

Tap ObservationRecorder::MakeTap() {
  return [this](const Observation& observation) { Add(observation); };
}

void ObservationRecorder::Add(const Observation& observation) {
  auto entry = std::find_if(entries_.begin(), entries_.end(),
                            [&](const Entry& candidate) { return candidate.name == observation.name; });
  if (entry == entries_.end()) {
    const bool is_packed = observation.name.ends_with(".scores") || observation.name.ends_with(".probs");
    entries_.push_back({std::string(observation.name),
                        observation.layer,
                        observation.shape,
                        is_packed,
                        !observation.mask.empty(),
                        {}});
    entry = entries_.end() - 1;
  }
  entry->parts.push_back({observation.first_position,
                          observation.n_positions,
                          {observation.values.begin(), observation.values.end()},
                          {observation.mask.begin(), observation.mask.end()}});
}

RecordedArray ObservationRecorder::Join(Entry entry) {
  RecordedArray out{std::move(entry.name), entry.layer, {}, {}, {}};
  const Part& last = entry.parts.back();
  const uint64_t n = last.first_position + last.n_positions;  // positions in all
  if (entry.is_mask) {
    const uint64_t row_bytes = (n + 7) / 8;
    out.shape = {n, n};
    out.mask_bits.assign(n * row_bytes, 0);
    for (const Part& part : entry.parts) {
      const uint64_t columns = part.first_position + part.n_positions;
      for (uint64_t i = 0; i < part.mask.size(); ++i) {
        if (part.mask[i] == 0) continue;
        uint8_t& byte = out.mask_bits[(part.first_position + i / columns) * row_bytes + (i % columns) / 8];
        byte = static_cast<uint8_t>(byte | (1u << (i % columns % 8)));
      }
    }
  } else if (entry.is_packed) {
    const uint64_t n_heads = entry.shape[0];
    out.shape = {n_heads, Triangle(n)};
    out.values.resize(n_heads * Triangle(n));
    for (const Part& part : entry.parts) {
      const uint64_t size = part.values.size() / n_heads;
      for (uint64_t h = 0; h < n_heads; ++h) {
        std::copy_n(part.values.begin() + static_cast<std::ptrdiff_t>(h * size), size,
                    out.values.begin() +
                        static_cast<std::ptrdiff_t>(h * Triangle(n) + Triangle(part.first_position)));
      }
    }
  } else {
    if (n > 0) out.shape.push_back(n);
    out.shape.insert(out.shape.end(), entry.shape.begin(), entry.shape.end());
    for (const Part& part : entry.parts)
      out.values.insert(out.values.end(), part.values.begin(), part.values.end());
  }
  return out;
}

std::vector<RecordedArray> ObservationRecorder::Take() {
  std::vector<RecordedArray> arrays;
  for (Entry& entry : entries_) arrays.push_back(Join(std::move(entry)));
  entries_.clear();
  return arrays;
}

}  // namespace slm
