// Seeded defects: each turns a good artifact or a good container into a bad one of the same form, with
// every hash in it made again, so that only a gate that looks at the contents can tell.
#ifndef SLM_APPS_SLM_MUTANTS_H_
#define SLM_APPS_SLM_MUTANTS_H_

#include <functional>
#include <string>

#include "base/error.h"
#include "golden/golden.h"
#include "slm_file/artifact.h"

namespace slm::app {

// What to change while an artifact is written anew.
struct ArtifactEdit {
  std::string tensor;  // name; empty: none
  std::function<void(const TensorEntry&, Bytes*)> edit_tensor;
  std::function<void(cbor::Map* config)> edit_config;  // of the manifest; may be empty
};
// Writes `artifact` to `path` with this edit. Without one the copy is equal byte for byte.
[[nodiscard]] Status RewriteArtifact(const Artifact& artifact, const ArtifactEdit& edit,
                                     const std::string& path);

// Swaps two neighbouring rows of the first query projection.
[[nodiscard]] Status PermuteWeightRow(const Artifact& artifact, const std::string& path);
// Multiplies the epsilon of the norms by 10.
[[nodiscard]] Status ChangeEpsilon(const Artifact& artifact, const std::string& path);
// Replaces the set of end-of-sequence ids by another id.
[[nodiscard]] Status WrongEos(const Artifact& artifact, const std::string& path);
// Copies the file and flips one bit in its data region; no hash is made again.
[[nodiscard]] Status FlipByte(const Artifact& artifact, const std::string& path);

// Writes a container anew; `edit` may change the bytes of an observation (case, name, bytes).
using ObservationEdit = std::function<void(const golden::Case&, const golden::Observation&, Bytes*)>;
[[nodiscard]] Status RewriteGolden(const golden::Golden& golden, const ObservationEdit& edit,
                                   const std::string& path);
// Makes one lane of the first layer's attention output NaN, in the last case that has it.
[[nodiscard]] Status NanLane(const golden::Golden& golden, const std::string& path);

}  // namespace slm::app

#endif  // SLM_APPS_SLM_MUTANTS_H_
