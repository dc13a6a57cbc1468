// Which weights files belong to a source, and whether tied tensors agree (ACQ-06, ACQ-12).
#ifndef SLM_ACQUIRE_WEIGHTS_SET_H_
#define SLM_ACQUIRE_WEIGHTS_SET_H_

#include <string>
#include <vector>

#include "acquire/conflict.h"
#include "acquire/file_stream.h"
#include "base/error.h"
#include "store/store.h"

namespace slm::acquire {

inline constexpr std::string_view kSingleWeights = "model.safetensors";
inline constexpr std::string_view kWeightsIndex = "model.safetensors.index.json";

// A single file and an index side by side, or shards beside a single file; nothing if neither.
[[nodiscard]] std::optional<Conflict> FindWeightsConflict(const std::vector<StreamedFile>& files);

struct WeightsSet {
  std::vector<const StreamedFile*> files;  // ascending by path
  std::optional<Conflict> problem;         // a fault of the shards; never acceptable
};
// `use_single` says which of the two holds where both are there. Errors: ACQ-MISSING,
// IX-INCOMPLETE without an index, and those of ParseShardIndex.
[[nodiscard]] Result<WeightsSet> SelectWeights(const std::vector<StreamedFile>& files, bool use_single,
                                               const Profile& profile, std::vector<std::string>* flags);

// tie_word_embeddings is true and a separate output tensor holds other values. Reads both tensors
// from the store in blocks; equal ones are recorded in `flags`.
[[nodiscard]] Result<std::optional<Conflict>> FindTiedConflict(const Store& store, const SourceView& view,
                                                               const Profile& profile,
                                                               std::vector<std::string>* flags);

}  // namespace slm::acquire

#endif  // SLM_ACQUIRE_WEIGHTS_SET_H_
