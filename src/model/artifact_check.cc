#include "model/artifact_check.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/family_profile.h"
#include "model/llama.h"
#include "model/rope.h"
#include "slm_file/file_header.h"
#include "slm_file/manifest.h"

namespace slm {
namespace {

std::string ShapeText(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string_view SourceDType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kBf16:
      return "BF16";
    case DType::kF16:
      return "F16";
  }
  return "";
}

// Values of the configuration that follow from others: what is materialized must be what the numeric
// profile defines, since the runtime reads only that.
Status CheckDerived(const EffectiveConfig& config) {
  if (config.attention_scale != AttentionScale(config.head_dim)) {
    return Fail(MakeError(ErrorCode::kCfgShape, "config.attention_scale: is not head_dim ** -0.5")
                    .Field("config.attention_scale"));
  }
  const uint64_t trained = config.rope.original_max_position_embeddings.value_or(config.max_positions);
  if (config.trained_context != trained) {
    return Fail(MakeError(ErrorCode::kCfgRope, "config.trained_context: must be " + std::to_string(trained))
                    .Field("config.trained_context"));
  }
  RopeConfig rope = config.rope;
  Status computed = ComputeRope(&rope, config.max_positions, config.rope.attention_factor);
  if (!computed) {
    Error error = std::move(computed).error();
    error.field = "config." + error.field;
    return Fail(std::move(error));
  }
  if (rope.attention_factor != config.rope.attention_factor) {
    return Fail(MakeError(ErrorCode::kCfgRope, "config.rope_attention_factor: this rope type has 1.0")
                    .Field("config.rope_attention_factor"));
  }
  for (size_t i = 0; i < rope.inv_freq.size(); ++i) {
    if (rope.inv_freq[i] == config.rope.inv_freq[i]) continue;
    return Fail(MakeError(ErrorCode::kCfgRope, "config.rope_inv_freq: frequency " + std::to_string(i) +
                                                   " is not the one that the rotary parameters give")
                    .Field("config.rope_inv_freq"));
  }
  return {};
}

class Checker {
 public:
  Checker(const Artifact& artifact, const EffectiveConfig& config)
      : artifact_(artifact),
        config_(config),
        rows_(*artifact.manifest().Find("tensors")->AsArray()),
        specs_(LlamaTensors(config)) {}

  Status Check() {
    SLM_TRY(CheckProfile());
    std::map<std::string_view, size_t> wanted;
    for (size_t i = 0; i < specs_.size(); ++i) wanted.emplace(specs_[i].name, i);
    for (size_t i = 0; i < artifact_.tensors().size(); ++i) {
      const auto found = wanted.find(artifact_.tensors()[i].name);
      if (found == wanted.end()) return Fail(ExtraError(i));
      SLM_TRY(CheckTensor(i, specs_[found->second]));
      wanted.erase(found);
    }
    if (wanted.empty()) return {};
    const std::string name(wanted.begin()->first);
    return Fail(MakeError(ErrorCode::kMapMissing,
                          "tensors: the configuration needs " + name + ", the artifact does not hold it")
                    .Field("tensors"));
  }

 private:
  Error At(ErrorCode code, size_t index, std::string_view key, std::string message) const {
    return MakeError(code, artifact_.tensors()[index].name + ": " + std::move(message))
        .Field("tensors[" + std::to_string(index) + "]" + std::string(key));
  }

  [[nodiscard]] Status CheckProfile() const {
    const cbor::Map& profile = *artifact_.manifest().Find("family_profile")->AsMap();
    if (*profile.Find("family")->AsTextString() != config_.family) {
      return Fail(MakeError(ErrorCode::kCfgArchitecture,
                            "family_profile.family: the configuration is of family " + config_.family)
                      .Field("family_profile.family"));
    }
    const uint64_t version = *profile.Find("version")->AsUint();
    const uint64_t known = FamilyProfile::LlamaVersion();
    if (version == 0 || version > known) {
      return Fail(MakeError(ErrorCode::kSlmVersion, "family_profile.version: this program knows 1 to " +
                                                        std::to_string(known) + ", not " +
                                                        std::to_string(version))
                      .Field("family_profile.version"));
    }
    return {};
  }

  [[nodiscard]] Error ExtraError(size_t index) const {
    const TensorEntry& entry = artifact_.tensors()[index];
    if (entry.layer && *entry.layer >= config_.n_layers) {
      return At(ErrorCode::kMapLayer, index, ".layer",
                "belongs to layer " + std::to_string(*entry.layer) + ", the configuration has " +
                    std::to_string(config_.n_layers));
    }
    return At(ErrorCode::kMapUnconsumed, index, ".name", "no tensor of this configuration");
  }

  [[nodiscard]] Status CheckTensor(size_t index, const TensorSpec& spec) const {
    const TensorEntry& entry = artifact_.tensors()[index];
    if (entry.role != spec.role)
      return Fail(At(ErrorCode::kSlmSchema, index, ".role", "its role is " + spec.role));
    if (entry.layer != spec.layer)
      return Fail(At(ErrorCode::kSlmSchema, index, ".layer", "is not the layer that its name says"));
    if (entry.layout != spec.layout) {
      return Fail(At(ErrorCode::kSlmLayout, index, ".layout",
                     "has layout " + std::string(LayoutName(spec.layout)) + " in this version"));
    }
    SLM_TRY(CheckShape(index, spec));
    if (entry.alias_of.has_value() != spec.alias_of.has_value()) {
      return Fail(At(ErrorCode::kCfgTied, index, spec.alias_of ? ".blob" : ".alias_of",
                     spec.role == "head.weight" ? "tie_word_embeddings says otherwise"
                                                : "only the output may be an alias"));
    }
    if (spec.alias_of && artifact_.tensors()[*entry.alias_of].name != specs_[*spec.alias_of].name) {
      return Fail(
          At(ErrorCode::kCfgTied, index, ".alias_of", "must stand for " + specs_[*spec.alias_of].name));
    }
    return CheckLineage(index, spec);
  }

  [[nodiscard]] Status CheckShape(size_t index, const TensorSpec& spec) const {
    const TensorEntry& entry = artifact_.tensors()[index];
    if (entry.shape == spec.shape) return {};
    const bool by_vocabulary = (spec.role == "embed.weight" || spec.role == "head.weight") &&
                               entry.shape.size() == 2 && entry.shape[1] == spec.shape[1];
    return Fail(
        At(by_vocabulary ? ErrorCode::kCfgVocabShape : ErrorCode::kMapShape, index, ".shape",
           "has shape " + ShapeText(entry.shape) + ", the configuration needs " + ShapeText(spec.shape)));
  }

  // Sources and transforms: those that make this tensor in this family, and no others.
  [[nodiscard]] Status CheckLineage(size_t index, const TensorSpec& spec) const {
    const cbor::Map& row = *rows_[index].AsMap();
    const cbor::Array& sources = *row.Find("source")->AsArray();
    const TensorSpec& stored = spec.alias_of ? specs_[*spec.alias_of] : spec;
    const bool dropped = spec.alias_of && sources.size() == 2;
    for (size_t i = 0; i < sources.size(); ++i) {
      const bool expected = i == 0 || (i == 1 && dropped);
      if (!expected ||
          !IsSource(*sources[i].AsMap(), i == 0 ? stored : spec, artifact_.tensors()[index].dtype)) {
        return Fail(At(ErrorCode::kSlmLineage, index, ".source[" + std::to_string(i) + "]",
                       "name, shape, dtype or size of this source do not give the tensor"));
      }
    }
    // The wording of the proof is the producer's own.
    const cbor::Array& transforms = *row.Find("transforms")->AsArray();
    const cbor::Value* proof = transforms.front().AsMap()->Find("proof");
    if (transforms != Transforms(spec, dropped, proof != nullptr ? *proof : cbor::Value())) {
      return Fail(At(ErrorCode::kSlmLineage, index, ".transforms",
                     "are not those that make this tensor from its source"));
    }
    return {};
  }

  static bool IsSource(const cbor::Map& source, const TensorSpec& spec, DType dtype) {
    uint64_t size = DTypeSize(dtype);
    cbor::Array shape;
    for (const uint64_t dimension : spec.shape) {
      size *= dimension;  // StoredSize has accepted this shape
      shape.emplace_back(dimension);
    }
    return *source.Find("name")->AsTextString() == spec.source_name &&
           *source.Find("shape")->AsArray() == shape &&
           *source.Find("dtype")->AsTextString() == SourceDType(dtype) &&
           *source.Find("end")->AsUint() - *source.Find("begin")->AsUint() == size;
  }

  [[nodiscard]] cbor::Array Transforms(const TensorSpec& spec, bool dropped, cbor::Value proof) const {
    cbor::Array transforms;
    if (dropped) transforms.emplace_back(cbor::Map{{"op", "drop-equal"}, {"of", spec.source_name}});
    if (spec.alias_of) {
      transforms.emplace_back(cbor::Map{{"op", "alias"}, {"of", specs_[*spec.alias_of].name}});
    } else if (spec.layout == Layout::kRowMajor) {
      transforms.emplace_back(cbor::Map{{"op", "identity"}});
    } else {
      const uint64_t groups = (spec.shape[0] + kRowsPerGroup - 1) / kRowsPerGroup;
      transforms.emplace_back(cbor::Map{{"op", "row-interleave-16"},
                                        {"rows", spec.shape[0]},
                                        {"cols", spec.shape[1]},
                                        {"padded_rows", groups * kRowsPerGroup},
                                        {"fill", "zero"},
                                        {"proof", std::move(proof)}});
    }
    return transforms;
  }

  const Artifact& artifact_;
  const EffectiveConfig& config_;
  const cbor::Array& rows_;
  std::vector<TensorSpec> specs_;
};

Status CheckAll(const Artifact& artifact, const EffectiveConfig& config) {
  SLM_TRY(CheckDerived(config));
  return Checker(artifact, config).Check();
}

}  // namespace

Result<EffectiveConfig> CheckModelArtifact(const Artifact& artifact) {
  Result<EffectiveConfig> config = ConfigFromCbor(artifact.config());
  Status status = config ? CheckAll(artifact, *config) : Status();
  if (config && status) return config;
  const auto manifest_size = LoadLe<uint64_t>(&artifact.file()[32]);
  return Fail(ManifestError(config ? std::move(status).error() : std::move(config).error(),
                            artifact.file().subspan(kSlmHeaderSize, manifest_size)));
}

}  // namespace slm
