#include "convert/ledger.h"

#include <algorithm>
#include <set>
#include <utility>

#include "model/rope.h"
#include "numeric/float_formats.h"

namespace slm::convert {
namespace {

std::string ShapeText(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

class LedgerBuilder {
 public:
  LedgerBuilder(const EffectiveConfig& config, const SourceTree& tree, const Weights& weights,
                bool tied_by_statement)
      : config_(config), tree_(tree), weights_(weights), tied_by_statement_(tied_by_statement) {}

  Result<Ledger> Build() {
    for (TensorSpec& spec : LlamaTensors(config_)) {
      SLM_TRY(spec.alias_of ? AddAlias(std::move(spec)) : AddStored(std::move(spec)));
    }
    for (const auto& [name, tensor] : weights_.tensors) {
      if (!consumed_.contains(name)) {
        SLM_TRY(AddExtra(tensor));
      }
    }
    return std::move(ledger_);
  }

 private:
  Error TensorError(ErrorCode code, const SourceTensor& tensor, std::string message) {
    return MakeError(code, tensor.name + ": " + std::move(message))
        .At(tensor.begin)
        .In(tree_.files()[tensor.file].path)
        .Field(tensor.name);
  }

  [[nodiscard]] const SourceTensor* Find(std::string_view name) const {
    const auto found = weights_.tensors.find(name);
    return found == weights_.tensors.end() ? nullptr : &found->second;
  }

  Status AddStored(TensorSpec spec) {
    const SourceTensor* tensor = Find(spec.source_name);
    if (tensor == nullptr) return Fail(MissingError(spec));
    SLM_ASSIGN(const DType dtype, CheckTensor(spec, *tensor));
    consumed_.insert(tensor->name);
    ledger_.rows.push_back({std::move(spec), {tensor}, dtype});
    return {};
  }

  Error MissingError(const TensorSpec& spec) {
    if (spec.role == "head.weight") {
      return MakeError(ErrorCode::kCfgTied,
                       spec.source_name +
                           ": absent, although the output is not tied: tie_word_embeddings is false in "
                           "config.json, or absent there and false by default of the pinned source")
          .In("config.json")
          .Field(spec.source_name);
    }
    return MakeError(ErrorCode::kMapMissing, spec.source_name + ": the family needs this tensor, " +
                                                 ShapeText(spec.shape) + "; the source does not hold it")
        .In(WhereTensorsAreListed())
        .Field(spec.source_name);
  }

  // The index where the weights are in shards, else the file that holds them.
  [[nodiscard]] std::string WhereTensorsAreListed() const {
    constexpr std::string_view kIndex = "model.safetensors.index.json";
    if (tree_.Has(kIndex) || weights_.tensors.empty()) return std::string(kIndex);
    return tree_.files()[weights_.tensors.begin()->second.file].path;
  }

  Result<DType> CheckTensor(const TensorSpec& spec, const SourceTensor& tensor) {
    if (tensor.shape != spec.shape) {
      const bool by_vocabulary = spec.role == "embed.weight" || spec.role == "head.weight";
      if (by_vocabulary && tensor.shape.size() == 2 && tensor.shape[1] == spec.shape[1]) {
        return Fail(TensorError(ErrorCode::kCfgVocabShape, tensor,
                                "has " + std::to_string(tensor.shape[0]) +
                                    " rows, config.json says vocab_size " + std::to_string(spec.shape[0])));
      }
      const bool transposed = tensor.shape.size() == 2 && spec.shape.size() == 2 &&
                              tensor.shape[0] == spec.shape[1] && tensor.shape[1] == spec.shape[0];
      return Fail(
          TensorError(ErrorCode::kMapShape, tensor,
                      "has shape " + ShapeText(tensor.shape) + ", the family needs " + ShapeText(spec.shape) +
                          (transposed ? "; it looks transposed, and nothing is transposed silently" : "")));
    }
    const std::optional<DType> dtype = DTypeOfSafetensors(tensor.dtype);
    if (!dtype) {
      return Fail(TensorError(ErrorCode::kMapDtype, tensor,
                              "has dtype " + tensor.dtype + "; only F32, BF16 and F16 can be mapped"));
    }
    return *dtype;
  }

  // The tied output: no bytes of its own. A copy in the source must be equal.
  Status AddAlias(TensorSpec spec) {
    const LedgerRow& target = ledger_.rows[*spec.alias_of];
    LedgerRow row{std::move(spec), {target.sources.front()}, target.dtype};
    const SourceTensor* copy = Find(row.spec.source_name);
    if (copy != nullptr && tied_by_statement_) {
      consumed_.insert(copy->name);
      ledger_.omitted.push_back(
          {copy,
           "a person's statement says that tie_word_embeddings holds: the output is the "
           "embedding, and this tensor, which differs from it, is not used"});
    } else if (copy != nullptr) {
      SLM_ASSIGN(const DType dtype, CheckTensor(row.spec, *copy));
      const SourceTensor& embedding = *target.sources.front();
      if (dtype != target.dtype) {
        return Fail(TensorError(ErrorCode::kMapTiedDiffer, *copy,
                                "tied to " + embedding.name + ", but of another dtype"));
      }
      const auto [in_copy, in_embedding] = std::mismatch(copy->bytes.begin(), copy->bytes.end(),
                                                         embedding.bytes.begin(), embedding.bytes.end());
      if (in_copy != copy->bytes.end()) {
        const auto element = static_cast<uint64_t>(in_copy - copy->bytes.begin()) / DTypeSize(dtype);
        return Fail(TensorError(ErrorCode::kMapTiedDiffer, *copy,
                                "tied to " + embedding.name + ", but differs from it, first in element " +
                                    std::to_string(element)));
      }
      consumed_.insert(copy->name);
      row.sources.push_back(copy);
    }
    ledger_.rows.push_back(std::move(row));
    return {};
  }

  Status AddExtra(const SourceTensor& tensor) {
    const std::optional<uint64_t> layer = LlamaLayerOf(tensor.name);
    if (layer && *layer >= config_.n_layers) {
      return Fail(
          TensorError(ErrorCode::kMapLayer, tensor,
                      "belongs to a layer past the last, the model has " + std::to_string(config_.n_layers)));
    }
    if (IsLlamaRotaryBuffer(tensor.name)) {
      SLM_TRY(CheckRotaryBuffer(tensor));
      ledger_.omitted.push_back({&tensor,
                                 "rotary buffer of an old checkpoint: the pinned source does not load it; "
                                 "equal to the frequencies that config.json gives, within one unit"});
      return {};
    }
    const bool prefixed = tensor.name.starts_with("model.");
    const std::string twin = prefixed ? tensor.name.substr(6) : "model." + tensor.name;
    if (consumed_.contains(twin)) {
      return Fail(
          TensorError(ErrorCode::kMapDuplicate, tensor, "is a second tensor for the role of " + twin));
    }
    return Fail(TensorError(ErrorCode::kMapUnconsumed, tensor, "nothing in family llama consumes it"));
  }

  // Old checkpoints carry the unscaled inverse frequencies. They must be those of rope_theta, within
  // one unit in the last place of their dtype (powers differ between platforms).
  Status CheckRotaryBuffer(const SourceTensor& tensor) {
    const std::optional<DType> dtype = DTypeOfSafetensors(tensor.dtype);
    RopeConfig plain;
    plain.theta = config_.rope.theta;
    plain.dim = config_.head_dim;
    SLM_TRY(ComputeRope(&plain, config_.max_positions, std::nullopt));
    if (!dtype || tensor.shape != std::vector<uint64_t>{plain.inv_freq.size()}) {
      return Fail(
          TensorError(ErrorCode::kMapShape, tensor,
                      "a rotary buffer must hold " + std::to_string(plain.inv_freq.size()) + " floats"));
    }
    for (size_t i = 0; i < plain.inv_freq.size(); ++i) {
      if (Distance(tensor.bytes, i, *dtype, plain.inv_freq[i]) <= 1) continue;
      return Fail(TensorError(ErrorCode::kCfgRope, tensor,
                              "frequency " + std::to_string(i) + " is not the one that rope_theta gives"));
    }
    return {};
  }

  // Units in the last place between stored element `i` and `expected`, in the element's own dtype.
  static uint32_t Distance(ByteSpan bytes, size_t i, DType dtype, float expected) {
    if (dtype == DType::kF32) {
      return numeric::UlpDistance(numeric::FromBits(LoadLe<uint32_t>(bytes.data() + 4 * i)), expected);
    }
    const auto stored = LoadLe<uint16_t>(bytes.data() + 2 * i);
    const uint16_t wanted =
        dtype == DType::kBf16 ? numeric::F32ToBf16(expected) : numeric::F32ToF16(expected);
    return stored > wanted ? uint32_t{stored} - wanted : uint32_t{wanted} - stored;
  }

  const EffectiveConfig& config_;
  const SourceTree& tree_;
  const Weights& weights_;
  const bool tied_by_statement_;
  Ledger ledger_;
  std::set<std::string, std::less<>> consumed_;
};

}  // namespace

Result<Ledger> BuildLedger(const EffectiveConfig& config, const SourceTree& tree, const Weights& weights,
                           bool tied_by_statement) {
  return LedgerBuilder(config, tree, weights, tied_by_statement).Build();
}

}  // namespace slm::convert
