#include "evidence/observer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "codec/sha256.h"
#include "model/effective_config.h"
#include "runtime/generate.h"
#include "runtime/recorder.h"

namespace slm::evidence {
namespace {

// One array that a case keeps, and which part of it.
struct Wanted {
  std::string name;
  std::optional<golden::Interval> rows;
  std::optional<golden::Interval> columns;
};

double Gap(std::span<const float> logits) {
  double best = -HUGE_VAL;
  double second = -HUGE_VAL;
  for (const float value : logits) {
    const auto wide = static_cast<double>(value);
    if (wide > best) {
      second = best;
      best = wide;
    } else if (wide > second) {
      second = wide;
    }
  }
  return best - second;
}

// The k largest of a row: by value descending, then id ascending.
std::vector<uint32_t> TopK(std::span<const float> row, uint64_t k) {
  std::vector<uint32_t> ids(row.size());
  std::iota(ids.begin(), ids.end(), 0u);
  const auto before = [row](uint32_t a, uint32_t b) {
    return row[a] > row[b] || (row[a] == row[b] && a < b);
  };
  const auto middle = ids.begin() + static_cast<ptrdiff_t>(std::min<uint64_t>(k, ids.size()));
  std::partial_sort(ids.begin(), middle, ids.end(), before);
  ids.erase(middle, ids.end());
  return ids;
}

// Values of the rows and columns that are kept, and their shape.
struct Slice {
  std::vector<uint64_t> shape;
  std::vector<float> values;
};

Slice CutRows(std::span<const float> values, std::vector<uint64_t> shape, const Wanted& wanted) {
  const uint64_t n_rows = shape[0];
  const uint64_t width = values.size() / n_rows;
  const golden::Interval rows = wanted.rows.value_or(golden::Interval{0, n_rows});
  const uint64_t n_columns = shape.back();
  const golden::Interval columns = wanted.columns.value_or(golden::Interval{0, n_columns});
  Slice slice;
  for (uint64_t row = rows.begin; row < rows.begin + rows.count; ++row) {
    for (uint64_t at = row * width; at < (row + 1) * width; at += n_columns) {
      const auto part = values.subspan(at + columns.begin, columns.count);
      slice.values.insert(slice.values.end(), part.begin(), part.end());
    }
  }
  shape[0] = rows.count;
  shape.back() = columns.count;
  slice.shape = std::move(shape);
  return slice;
}

// [heads, n (n + 1) / 2]: row t of a head starts at t (t + 1) / 2.
Slice CutPacked(std::span<const float> values, const std::vector<uint64_t>& shape,
                const golden::Interval& rows) {
  const auto start = [](uint64_t t) { return t * (t + 1) / 2; };
  const uint64_t begin = start(rows.begin);
  const uint64_t count = start(rows.begin + rows.count) - begin;
  Slice slice;
  for (uint64_t head = 0; head < shape[0]; ++head) {
    const auto part = values.subspan(head * shape[1] + begin, count);
    slice.values.insert(slice.values.end(), part.begin(), part.end());
  }
  slice.shape = {shape[0], count};
  return slice;
}

bool IsPacked(std::string_view name) {
  return name.ends_with(".attn.scores") || name.ends_with(".attn.probs");
}

golden::Observation Describe(const Wanted& wanted, uint64_t n_positions) {
  golden::Observation out;
  out.name = wanted.name;
  out.role = wanted.name;
  constexpr std::string_view kLayers = "layers.";
  if (out.name.starts_with(kLayers)) {
    const size_t dot = out.name.find('.', kLayers.size());
    uint32_t layer = 0;
    for (size_t i = kLayers.size(); i < dot; ++i)
      layer = layer * 10 + static_cast<uint32_t>(out.name[i] - '0');
    out.layer = layer;
    out.role = out.name.substr(dot + 1);
  }
  if (wanted.rows && *wanted.rows != golden::Interval{0, n_positions}) out.rows = wanted.rows;
  out.columns = wanted.columns;
  return out;
}

}  // namespace

class Observer::State {
 public:
  State(std::shared_ptr<const Artifact> artifact, std::shared_ptr<const Model> model, ObserveOptions options,
        golden::GoldenWriter::Sink sink)
      : artifact_(std::move(artifact)),
        model_(std::move(model)),
        options_(std::move(options)),
        writer_(std::move(sink)) {}

  Status Open() {
    SLM_ASSIGN(session_, Session::Create(model_, {.max_positions = 0, .kernel = options_.kernel}));
    return {};
  }

  Result<std::vector<uint32_t>> Run(const CaseSpec& spec, CaseText text) {
    golden::Case out;
    out.case_id = spec.id;
    out.case_class = spec.case_class;
    out.input_kind = spec.kind;
    out.max_new_tokens = spec.max_new_tokens;
    out.add_generation_prompt = spec.add_generation_prompt;
    out.input = spec.data;
    out.ids = std::move(text.ids);
    out.positions = {0, out.ids.size()};
    out.rendered = std::move(text.rendered);
    out.ownership = std::move(text.ownership);
    if (text.tokenization) out.tokenizations.push_back(*std::move(text.tokenization));
    const bool sealed = spec.case_class == golden::CaseClass::kPrivateBehaviorCommitment;
    SLM_TRY(RunModel(spec, sealed ? std::vector<Wanted>{} : WantedOf(spec, out.ids.size()), &out));
    open_ = std::move(out);
    return open_->generation ? open_->generation->tokens : std::vector<uint32_t>{};
  }

  void Close(std::string_view visible) {
    golden::Case out = *std::move(open_);
    open_.reset();
    if (out.generation) {
      out.generation->text.assign(visible.begin(), visible.end());
      out.raw_output_commitment = golden::RawOutputCommitment(*out.generation);
    }
    const bool sealed = out.case_class == golden::CaseClass::kPrivateBehaviorCommitment;
    content_.cases.push_back(sealed ? Seal(std::move(out)) : std::move(out));
  }

  Status Finish() {
    SLM_TRY(Identify());
    return writer_.Finish(std::move(content_));
  }

 private:
  Status Identify() {
    const Artifact& artifact = *artifact_;
    content_.mode = golden::Mode::kCandidate;
    content_.identities["artifact"] = artifact.root();
    SLM_ASSIGN(content_.identities["source"], SourceIdentityOf(artifact));
    if (const auto text = artifact.Blob("tokenizer-json"); text.has_value()) {
      content_.identities["tokenizer"] = Sha256Of(*text);
    }
    if (const auto text = artifact.Blob("template-source"); text.has_value()) {
      content_.identities["template"] = Sha256Of(*text);
    }
    content_.effective_config = ConfigFieldsOf(artifact.config());
    cbor::Array fields;
    for (const golden::ConfigField& field : content_.effective_config) {
      fields.emplace_back(cbor::Array{field.name, field.value});
    }
    content_.identities["config"] = Sha256Of(cbor::Encode(fields));
    SLM_ASSIGN(content_.tensors, TensorHashesOf(artifact));
    content_.generator = cbor::Map{{"kind", "candidate"},
                                   {"backend", options_.backend},
                                   {"kernel", session_->kernel_name()},
                                   {"profile", "exact-v1"},
                                   {"threads", 1},
                                   {"cases_sha256", options_.cases_sha256}};
    return AddFrequencies();
  }

  Status AddFrequencies() {
    const std::vector<float>& frequencies = model_->config().rope.inv_freq;
    golden::Observation observation;
    observation.name = observation.role = "rope.inv_freq";
    observation.shape = {frequencies.size()};
    SLM_ASSIGN(observation.blob, writer_.AddF32(frequencies));
    content_.model_observations.push_back(std::move(observation));
    return {};
  }

  // What to keep of a case with `n_positions`. Names of the reference that the plan does not have are left
  // out, so that the comparison reports them as missing.
  std::vector<Wanted> WantedOf(const CaseSpec& spec, uint64_t n_positions) const {
    std::vector<Wanted> wanted;
    if (options_.like != nullptr) {
      const golden::Case* like = options_.like->content().FindCase(spec.id);
      if (like == nullptr) return wanted;
      for (const golden::Observation& observation : like->observations) {
        // Slices that reach past this prompt belong to another one: L1 or L2 already differs there.
        if (observation.rows && observation.rows->begin + observation.rows->count > n_positions) continue;
        wanted.push_back({observation.name, observation.rows, observation.columns});
      }
      return wanted;
    }
    for (const Step& step : model_->plan().steps) {
      if (step.observation.empty() || step.op == Operator::kInverseFrequencies) continue;
      const bool named =
          std::find(options_.taps.begin(), options_.taps.end(), step.observation) != options_.taps.end();
      if (options_.all_taps || named) wanted.push_back({step.observation, std::nullopt, std::nullopt});
    }
    if (std::none_of(wanted.begin(), wanted.end(), [](const Wanted& w) { return w.name == "logits"; })) {
      wanted.push_back({"logits", std::nullopt, std::nullopt});
    }
    wanted.push_back({"top_k.ids", std::nullopt, std::nullopt});
    wanted.push_back({"top_k.values", std::nullopt, std::nullopt});
    return wanted;
  }

  uint64_t TopKOf(const CaseSpec& spec) const {
    const golden::Case* like =
        options_.like == nullptr ? nullptr : options_.like->content().FindCase(spec.id);
    const golden::Observation* ids = like == nullptr ? nullptr : like->Find("top_k.ids");
    return ids == nullptr || ids->shape.size() != 2 ? options_.top_k : ids->shape[1];
  }

  Status RunModel(const CaseSpec& spec, const std::vector<Wanted>& wanted, golden::Case* out) {
    SLM_TRY(session_->Truncate(0));
    ObservationRecorder recorder;
    TapSet taps;
    taps.tap = recorder.MakeTap();
    for (const Wanted& want : wanted) {
      if (want.name != "logits" && model_->plan().FindObservation(want.name) != nullptr) {
        taps.names.push_back(want.name);
      }
    }
    GenerateOptions generate;
    generate.max_new_tokens = spec.max_new_tokens;
    generate.stop_at_eos = spec.stop_at_eos;
    generate.prompt_logits = LogitRows::kAll;
    generate.prompt_taps = taps.names.empty() ? nullptr : &taps;
    generate.prefill_chunk = options_.prefill_chunk;
    std::vector<double> gaps;
    generate.on_logits = [&gaps](uint64_t, std::span<const float> logits, uint32_t) {
      gaps.push_back(Gap(logits));
    };
    SLM_ASSIGN(const slm::Generation generation, Generate(*session_, out->ids, generate, {}));
    const std::vector<RecordedArray> arrays = recorder.Take();
    for (const Wanted& want : wanted) SLM_TRY(Store(want, arrays, generation.prompt_logits, spec, out));
    if (spec.max_new_tokens > 0) {
      golden::Generation result;
      result.tokens = generation.ids;
      result.gaps = std::move(gaps);
      result.stop_reason = StopReasonName(generation.stop_reason);
      out->generation = std::move(result);
    }
    return {};
  }

  Status Store(const Wanted& want, const std::vector<RecordedArray>& arrays, const std::vector<float>& logits,
               const CaseSpec& spec, golden::Case* out) {
    const uint64_t n_positions = out->ids.size();
    const uint64_t n_vocab = logits.size() / n_positions;
    if (want.name == "logits") return StoreRows(want, logits, {n_positions, n_vocab}, out);
    if (want.name == "top_k.ids" || want.name == "top_k.values")
      return StoreTopK(want, logits, TopKOf(spec), out);
    const auto found = std::find_if(arrays.begin(), arrays.end(),
                                    [&](const RecordedArray& a) { return a.name == want.name; });
    if (found == arrays.end()) return {};
    if (!found->mask_bits.empty()) return StoreMask(want, *found, out);
    if (!IsPacked(want.name)) return StoreRows(want, found->values, found->shape, out);
    const golden::Interval rows = want.rows.value_or(golden::Interval{0, n_positions});
    const Slice slice = CutPacked(found->values, found->shape, rows);
    golden::Observation observation = Describe(want, n_positions);
    observation.layout = golden::Layout::kPackedCausal;
    observation.shape = slice.shape;
    SLM_ASSIGN(observation.blob, writer_.AddF32(slice.values));
    out->observations.push_back(std::move(observation));
    return {};
  }

  Status StoreRows(const Wanted& want, std::span<const float> values, const std::vector<uint64_t>& shape,
                   golden::Case* out) {
    golden::Observation observation = Describe(want, out->ids.size());
    if (want.columns) observation.full_columns = shape.back();
    if (want.columns && want.columns->begin + want.columns->count > shape.back()) return {};
    const Slice slice = CutRows(values, shape, want);
    observation.shape = slice.shape;
    SLM_ASSIGN(observation.blob, writer_.AddF32(slice.values));
    out->observations.push_back(std::move(observation));
    return {};
  }

  Status StoreMask(const Wanted& want, const RecordedArray& array, golden::Case* out) {
    const golden::Interval rows = want.rows.value_or(golden::Interval{0, array.shape[0]});
    const uint64_t row_bytes = (array.shape[1] + 7) / 8;
    golden::Observation observation = Describe(want, out->ids.size());
    observation.dtype = golden::DType::kBits;
    observation.layout = golden::Layout::kPackedBits;
    observation.shape = {rows.count, array.shape[1]};
    SLM_ASSIGN(
        observation.blob,
        writer_.AddBlob(ByteSpan(array.mask_bits).subspan(rows.begin * row_bytes, rows.count * row_bytes)));
    out->observations.push_back(std::move(observation));
    return {};
  }

  Status StoreTopK(const Wanted& want, std::span<const float> logits, uint64_t k, golden::Case* out) {
    const uint64_t n_positions = out->ids.size();
    const uint64_t n_vocab = logits.size() / n_positions;
    const golden::Interval rows = want.rows.value_or(golden::Interval{0, n_positions});
    std::vector<uint32_t> ids;
    std::vector<float> values;
    for (uint64_t row = rows.begin; row < rows.begin + rows.count; ++row) {
      const std::span<const float> line = logits.subspan(row * n_vocab, n_vocab);
      for (const uint32_t id : TopK(line, k)) {
        ids.push_back(id);
        values.push_back(line[id]);
      }
    }
    golden::Observation observation = Describe(want, n_positions);
    observation.shape = {rows.count, std::min(k, n_vocab)};
    if (want.name == "top_k.ids") {
      observation.dtype = golden::DType::kU32;
      SLM_ASSIGN(observation.blob, writer_.AddU32(ids));
    } else {
      SLM_ASSIGN(observation.blob, writer_.AddF32(values));
    }
    out->observations.push_back(std::move(observation));
    return {};
  }

  // A private case publishes commitments only (GLD-02).
  static golden::Case Seal(golden::Case open) {
    golden::Case sealed;
    sealed.case_id = open.case_id;
    sealed.case_class = open.case_class;
    sealed.input_kind = open.input_kind;
    sealed.input_commitment = Sha256Of(*open.input);
    sealed.max_new_tokens = open.max_new_tokens;
    sealed.add_generation_prompt = open.add_generation_prompt;
    sealed.raw_output_commitment = open.raw_output_commitment;
    return sealed;
  }

  std::shared_ptr<const Artifact> artifact_;
  std::shared_ptr<const Model> model_;
  ObserveOptions options_;
  golden::GoldenWriter writer_;
  golden::Content content_;
  std::optional<golden::Case> open_;  // run, its text not said yet
  std::unique_ptr<Session> session_;
};

namespace {

// Feeds the logical row-major bytes of a tensor to the hash.
void HashLogical(const Artifact& artifact, const TensorEntry& entry, Sha256* hash) {
  const ByteSpan bytes = artifact.TensorBytes(entry);
  if (entry.layout == slm::Layout::kRowMajor) {
    hash->Update(bytes);
    return;
  }
  const uint64_t element = DTypeSize(entry.dtype);
  const uint64_t n_rows = entry.shape[0];
  const uint64_t n_columns = entry.shape[1];
  Bytes group(kRowsPerGroup * n_columns * element);
  for (uint64_t first = 0; first < n_rows; first += kRowsPerGroup) {
    const uint8_t* from = bytes.data() + first * n_columns * element;
    for (uint64_t k = 0; k < n_columns; ++k) {
      for (uint64_t lane = 0; lane < kRowsPerGroup; ++lane) {
        std::copy_n(from + (k * kRowsPerGroup + lane) * element, element,
                    group.data() + (lane * n_columns + k) * element);
      }
    }
    const uint64_t n_here = std::min(kRowsPerGroup, n_rows - first);
    hash->Update(ByteSpan(group).first(n_here * n_columns * element));
  }
}

// Fields of the effective configuration that are our own statements (family-llama.md, column oracle: no).
constexpr std::array<std::string_view, 25> kOwnFields = {"schema",
                                                         "activation_form",
                                                         "norm_type",
                                                         "norm_place",
                                                         "norm_gain",
                                                         "norm_eps_f32",
                                                         "rope_pairing",
                                                         "rope_permutation",
                                                         "rope_attention_factor_f32",
                                                         "trained_context",
                                                         "attention_scale_f32",
                                                         "attention_mask",
                                                         "attention_pattern",
                                                         "sliding_window",
                                                         "attention_softcap",
                                                         "logit_scale",
                                                         "logit_softcap",
                                                         "embedding_scale",
                                                         "cache_type",
                                                         "cache_eviction",
                                                         "position_policy",
                                                         "tensor_parallel",
                                                         "inference_dtype",
                                                         "numeric_profile",
                                                         "unk_token"};

}  // namespace

Result<std::vector<golden::TensorHash>> TensorHashesOf(const Artifact& artifact) {
  const cbor::Value* rows = artifact.manifest().Find("tensors");
  if (rows == nullptr || rows->AsArray() == nullptr || rows->AsArray()->size() != artifact.tensors().size()) {
    return Fail(MakeError(ErrorCode::kSlmSchema, "the manifest's tensors do not fit").Field("tensors"));
  }
  std::vector<golden::TensorHash> hashes;
  for (size_t i = 0; i < artifact.tensors().size(); ++i) {
    const TensorEntry& entry = artifact.tensors()[i];
    if (entry.alias_of) continue;  // its target stands for the values
    const cbor::Map* row = (*rows->AsArray())[i].AsMap();
    const cbor::Value* sources = row == nullptr ? nullptr : row->Find("source");
    if (sources == nullptr || sources->AsArray() == nullptr || sources->AsArray()->empty() ||
        sources->AsArray()->front().AsMap() == nullptr) {
      return Fail(MakeError(ErrorCode::kSlmLineage, "a tensor without a source").Field(entry.name));
    }
    cbor::Reader reader(*sources->AsArray()->front().AsMap(), "source");
    golden::TensorHash hash;
    SLM_ASSIGN(hash.name, reader.Text("name"));
    hash.dtype = std::string(DTypeName(entry.dtype));
    hash.shape = entry.shape;
    Sha256 sha;
    HashLogical(artifact, entry, &sha);
    hash.sha256 = sha.Finish();
    hashes.push_back(std::move(hash));
  }
  std::sort(hashes.begin(), hashes.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return hashes;
}

std::vector<golden::ConfigField> ConfigFieldsOf(const cbor::Map& config) {
  std::vector<golden::ConfigField> fields;
  for (const auto& [name, value] : config) {
    if (std::find(kOwnFields.begin(), kOwnFields.end(), name) != kOwnFields.end()) continue;
    golden::ConfigField field;
    field.name = name;
    field.value = value;
    field.origin = "config.json";  // a candidate has its fields from its artifact alone
    fields.push_back(std::move(field));
  }
  std::sort(fields.begin(), fields.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return fields;
}

Result<Hash256> SourceIdentityOf(const Artifact& artifact) {
  const cbor::Value* source = artifact.manifest().Find("source");
  const cbor::Value* files =
      source == nullptr || source->AsMap() == nullptr ? nullptr : source->AsMap()->Find("files");
  if (files == nullptr || files->AsArray() == nullptr) {
    return Fail(MakeError(ErrorCode::kSlmSchema, "the manifest has no source files").Field("source.files"));
  }
  return Sha256Of(cbor::Encode(*files));
}

Result<std::unique_ptr<Observer>> Observer::Create(std::shared_ptr<const Artifact> artifact,
                                                   std::shared_ptr<const Model> model, ObserveOptions options,
                                                   golden::GoldenWriter::Sink sink) {
  for (const std::string& tap : options.taps) {
    if (model->plan().FindObservation(tap) == nullptr) {
      return Fail(
          MakeError(ErrorCode::kRunTap, "no observation of this name; slm inspect --explain lists them")
              .Field(tap));
    }
  }
  auto state =
      std::make_unique<State>(std::move(artifact), std::move(model), std::move(options), std::move(sink));
  SLM_TRY(state->Open());
  return std::unique_ptr<Observer>(new Observer(std::move(state)));
}

Observer::Observer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Observer::~Observer() = default;

Result<std::vector<uint32_t>> Observer::Run(const CaseSpec& spec, CaseText text) {
  return state_->Run(spec, std::move(text));
}
void Observer::Close(std::string_view visible) {
  state_->Close(visible);
}
Status Observer::Finish() {
  return state_->Finish();
}

}  // namespace slm::evidence
