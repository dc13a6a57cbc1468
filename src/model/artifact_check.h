// What an artifact says of itself, held against itself: configuration, tensors, ledger.
//
// slm_file checks the form of a manifest; a file of the right form may still declare three layers and hold
// two, or tie an output that has bytes of its own. Every use of an artifact as a model begins here
// (docs/spec/slm.md, "Rules of the family").
#ifndef SLM_MODEL_ARTIFACT_CHECK_H_
#define SLM_MODEL_ARTIFACT_CHECK_H_

#include "base/error.h"
#include "model/effective_config.h"
#include "slm_file/artifact.h"

namespace slm {

// The configuration of an artifact whose parts agree. Pure; reads no tensor bytes. Errors, each with the
// field of the manifest and its byte offset in the file: SLM-SCHEMA (configuration, role, layer),
// SLM-VERSION (family profile), CFG-ROPE, CFG-SHAPE (derived values), MAP-MISSING, MAP-SHAPE,
// CFG-VOCAB-SHAPE, SLM-LAYOUT, CFG-TIED, MAP-LAYER, MAP-UNCONSUMED, SLM-LINEAGE.
[[nodiscard]] Result<EffectiveConfig> CheckModelArtifact(const Artifact& artifact);

}  // namespace slm

#endif  // SLM_MODEL_ARTIFACT_CHECK_H_
