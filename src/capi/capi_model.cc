// The C ABI of a model: artifacts, sessions, runs, observations, on ids; texts are capi_text.cc's.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "capi/handles.h"
#include "codec/sha256.h"
#include "evidence/build_nodes.h"
#include "evidence/cases_file.h"
#include "evidence/observer.h"
#include "golden/golden.h"
#include "identity/node.h"
#include "ops/kernels.h"
#include "records/token_run.h"
#include "runtime/bound_model.h"
#include "runtime/session.h"
#include "slm_file/artifact.h"
#include "slm_file/file_header.h"

namespace {

using slm::Error;
using slm::ErrorCode;
using slm::Fail;
using slm::MakeError;
using slm::Result;
using slm::Status;
using slm::capi::AnswerRecord;
using slm::capi::AnswerWith;
using slm::capi::BadOption;
using slm::capi::Drop;
using slm::capi::Keep;
using slm::capi::Knows;
using slm::capi::kNullContext;
using slm::capi::ParseObject;
using slm::capi::Refuse;
using slm::capi::TextAt;
using slm::capi::UnknownHandle;
using slm::json::Writer;
using slm::records::RecordStatus;

constexpr size_t kBufferAlign = 64;

struct FreeMemory {
  void operator()(uint8_t* memory) const { std::free(memory); }
};

// The bytes of a file that its caller fills.
struct Buffer {
  std::unique_ptr<uint8_t, FreeMemory> memory;
  size_t size = 0;
  [[nodiscard]] slm::ByteSpan bytes() const { return {memory.get(), size}; }
};

class BufferSource : public slm::ByteSource {
 public:
  explicit BufferSource(std::shared_ptr<const Buffer> buffer) : buffer_(std::move(buffer)) {}
  [[nodiscard]] slm::ByteSpan bytes() const override { return buffer_->bytes(); }

 private:
  std::shared_ptr<const Buffer> buffer_;
};

struct SessionState {
  std::shared_ptr<const slm::Artifact> artifact;
  std::unique_ptr<slm::Session> session;
  uint64_t n_runs = 0;  // number of the run that may use the session
};

}  // namespace

struct slm_artifact final : slm::capi::Handle {
  static constexpr std::string_view kKind = "artifact";
  slm_artifact() : Handle(kKind) {}
  std::shared_ptr<Buffer> buffer;
  slm::Hash256 root{};
  std::shared_ptr<const slm::Artifact> opened;  // after slm_artifact_head
  std::vector<bool> checked;                    // of each chunk
};

struct slm_model final : slm::capi::Handle {
  static constexpr std::string_view kKind = "model";
  slm_model() : Handle(kKind) {}
  std::shared_ptr<const slm::Artifact> artifact;
  std::shared_ptr<const slm::Model> model;
};

struct slm_session final : slm::capi::Handle {
  static constexpr std::string_view kKind = "session";
  slm_session() : Handle(kKind) {}
  std::shared_ptr<SessionState> state;
};

struct slm_run final : slm::capi::Handle {
  static constexpr std::string_view kKind = "run";
  slm_run() : Handle(kKind) {}
  std::shared_ptr<SessionState> state;
  uint64_t number = 0;
  std::unique_ptr<slm::records::TokenRun> run;
};

struct slm_observation final : slm::capi::Handle {
  static constexpr std::string_view kKind = "observation";
  slm_observation() : Handle(kKind) {}
  std::vector<slm::evidence::CaseSpec> cases;
  std::vector<slm::evidence::CaseText> texts;  // of each case, until it runs
  std::shared_ptr<const slm::golden::Golden> like;
  bool has_text = false;  // the artifact has a tokenizer
  size_t n_run = 0;
  bool is_open = false;  // the last case's ids have no text yet
  std::string bytes;     // of the container
  std::unique_ptr<slm::evidence::Observer> observer;
};

namespace {

Error NoMemoryFor(uint64_t file_size) {
  std::string message = "the artifact has " + std::to_string(file_size) + " bytes; ";
#ifdef __wasm__
  message += "memory in use: " + std::to_string(uint64_t{__builtin_wasm_memory_size(0)} * 65536) +
             " bytes, at most " + std::to_string(uint64_t{4} << 30);
#else
  message += "there is no memory for them";
#endif
  return MakeError(ErrorCode::kMemory, std::move(message));
}

Result<std::unique_ptr<slm_artifact>> NewArtifact(slm::ByteSpan header_bytes, uint64_t file_size) {
  if (file_size == UINT64_MAX) {
    const bool whole_header = header_bytes.size() >= slm::kSlmHeaderSize;
    file_size = whole_header ? slm::LoadLe<uint64_t>(header_bytes.data() + 16) : header_bytes.size();
  }
  SLM_ASSIGN(const slm::FileHeader header, slm::DecodeHeader(header_bytes, file_size));
  auto artifact = std::make_unique<slm_artifact>();
  artifact->root = slm::ArtifactRoot(header_bytes.first(slm::kSlmHeaderSize));
  artifact->buffer = std::make_shared<Buffer>();
  if (header.file_size <= SIZE_MAX - kBufferAlign) {
    const size_t rounded =
        (static_cast<size_t>(header.file_size) + kBufferAlign - 1) / kBufferAlign * kBufferAlign;
    artifact->buffer->memory.reset(static_cast<uint8_t*>(std::aligned_alloc(kBufferAlign, rounded)));
  }
  if (artifact->buffer->memory == nullptr) return Fail(NoMemoryFor(header.file_size));
  artifact->buffer->size = static_cast<size_t>(header.file_size);
  return artifact;
}

bool HasBlob(const slm::Artifact& artifact, std::string_view kind) {
  return std::any_of(artifact.blobs().begin(), artifact.blobs().end(),
                     [kind](const slm::BlobEntry& blob) { return blob.kind == kind; });
}

void WriteModel(const slm::Artifact& artifact, const slm::Model& model, Writer& out) {
  const slm::EffectiveConfig& config = model.config();
  const slm::Plan& plan = model.plan();
  out.Key("artifact").String(slm::ToHex(artifact.root()));
  out.Key("file_size").Uint(artifact.file().size());
  out.Key("family").String(config.family);
  out.Key("license").String(*artifact.manifest().Find("license")->AsMap()->Find("spdx")->AsTextString());
  out.Key("vocab_size").Uint(plan.vocab_size).Key("max_positions").Uint(plan.max_positions);
  out.Key("n_layers").Uint(plan.n_layers).Key("hidden_size").Uint(config.hidden_size);
  out.Key("n_heads").Uint(plan.n_heads).Key("n_kv_heads").Uint(plan.n_kv_heads);
  out.Key("head_dim").Uint(plan.head_dim);
  out.Key("eos_token_ids").BeginArray();
  for (const uint64_t id : config.eos_token_ids) out.Uint(id);
  out.EndArray();
  out.Key("tokenizer").Bool(HasBlob(artifact, "tokenizer-json"));
  out.Key("template").Bool(HasBlob(artifact, "template-ir"));
  out.Key("observations").BeginArray();
  for (const slm::Step& step : plan.steps) {
    if (!step.observation.empty()) out.String(step.observation);
  }
  out.EndArray();
}

void WriteTop(std::span<const float> logits, uint32_t k, Writer& out) {
  std::vector<uint32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0U);
  const size_t n_sorted = std::min<size_t>(std::max<uint32_t>(k, 2), ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(n_sorted), ids.end(),
                    [logits](uint32_t a, uint32_t b) {
                      return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
                    });
  const double largest = logits[ids[0]];
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  const size_t n_shown = std::min<size_t>(k, ids.size());
  out.Key("ids").BeginArray();
  for (size_t i = 0; i < n_shown; ++i) out.Uint(ids[i]);
  out.EndArray().Key("logits").BeginArray();
  for (size_t i = 0; i < n_shown; ++i) out.Double(logits[ids[i]]);
  out.EndArray().Key("probabilities").BeginArray();
  for (size_t i = 0; i < n_shown; ++i)
    out.Double(std::exp(static_cast<double>(logits[ids[i]]) - largest) / sum);
  out.EndArray();
  out.Key("margin").Double(ids.size() > 1 ? largest - static_cast<double>(logits[ids[1]]) : 0.0);
}

// The run, if it may go on. A run whose session another one took is over.
Result<slm::records::TokenRun*> LiveRun(const slm_context& context, const slm_run* run) {
  if (!Knows(context, run)) return Fail(UnknownHandle("run"));
  if (run->number != run->state->n_runs)
    return Fail(MakeError(ErrorCode::kUsage, "a later run uses the session; this one is over").Field("run"));
  return run->run.get();
}

Status CheckFed(const slm::records::TokenRun& run) {
  if (run.n_fed() == run.prompt_ids().size()) return {};
  return Fail(MakeError(ErrorCode::kUsage, "the prompt is not fed yet").Field("run"));
}

Result<uint64_t> UintOption(const slm::json::Value& value, std::string_view name) {
  const auto number = value.is_number() ? value.AsUint() : std::nullopt;
  if (!number || *number > UINT32_MAX) return Fail(BadOption(value, name, "a whole number of 32 bits"));
  return *number;
}

Result<slm::evidence::ObserveOptions> ParseObserve(const slm::json::Value& record) {
  SLM_TRY(slm::records::OnlyMembers(record, {"backend", "taps", "top_k", "prefill_chunk"}));
  slm::evidence::ObserveOptions options;
  const auto backend = record.Find("backend");
  if (!backend || !backend->is_string() || backend->string().empty())
    return Fail(BadOption(backend.value_or(record), "backend", "the name of this backend, a text"));
  options.backend = backend->string();
  if (const auto taps = record.Find("taps"); taps && !(taps->is_string() && taps->string() == "all")) {
    if (!taps->is_array()) return Fail(BadOption(*taps, "taps", "\"all\" or an array of names"));
    options.all_taps = false;
    for (const slm::json::Value name : taps->children()) {
      if (!name.is_string()) return Fail(BadOption(name, "taps", "\"all\" or an array of names"));
      options.taps.emplace_back(name.string());
    }
  }
  if (const auto top_k = record.Find("top_k")) {
    SLM_ASSIGN(options.top_k, UintOption(*top_k, "top_k"));
  }
  if (const auto chunk = record.Find("prefill_chunk")) {
    SLM_ASSIGN(options.prefill_chunk, UintOption(*chunk, "prefill_chunk"));
  }
  return options;
}

// The ids of a prompt: the record's own, or those that the text section made of its text or messages.
Result<std::vector<uint32_t>> PromptIds(const slm::records::Request& request, std::string_view prompt) {
  if (prompt.empty()) {
    if (request.spec.kind == slm::golden::InputKind::kTokenIds) return request.spec.ids;
    return Fail(MakeError(ErrorCode::kUsage, "a prompt of text needs what slm_text_run_new answered")
                    .Field("prompt"));
  }
  SLM_ASSIGN(const slm::json::Document document, ParseObject(prompt));
  const auto given = document.root().Find("prompt_ids");
  if (!given || !given->is_array())
    return Fail(BadOption(given.value_or(document.root()), "prompt_ids", "an array of ids"));
  std::vector<uint32_t> ids;
  for (const slm::json::Value item : given->children()) {
    SLM_ASSIGN(const uint64_t id, UintOption(item, "prompt_ids"));
    ids.push_back(static_cast<uint32_t>(id));
  }
  if (request.spec.kind == slm::golden::InputKind::kTokenIds && ids != request.spec.ids)
    return Fail(BadOption(*given, "prompt_ids", "the ids of the record"));
  return ids;
}

// The texts are of these cases and of this artifact, since they say so: the container states both as one
// thing.
Result<std::vector<slm::evidence::CaseText>> ParseTexts(std::string_view texts, size_t n_cases,
                                                        const slm::Hash256& root,
                                                        const slm::Hash256& cases_sha256) {
  SLM_ASSIGN(const slm::json::Document document, ParseObject(texts));
  const auto rows = document.root().Find("cases");
  std::vector<slm::evidence::CaseText> out;
  if (rows && rows->is_array()) {
    for (const slm::json::Value row : rows->children()) {
      SLM_ASSIGN(out.emplace_back(), slm::evidence::ReadCaseText(row));
    }
  }
  if (out.size() != n_cases)
    return Fail(
        BadOption(rows.value_or(document.root()), "cases", "what slm_text_cases answers for these cases"));
  for (const auto& [name, hash] : {std::pair("artifact", root), std::pair("cases_sha256", cases_sha256)}) {
    const auto stated = document.root().Find(name);
    if (!stated || !stated->is_string() || stated->string() != slm::ToHex(hash))
      return Fail(
          BadOption(stated.value_or(document.root()), name, "that of the model and the cases given here"));
  }
  return out;
}

Result<std::unique_ptr<slm_observation>> NewObservation(const slm_model& model, std::string_view options_text,
                                                        std::string_view cases_text, std::string_view texts,
                                                        std::string_view like_bytes) {
  auto observation = std::make_unique<slm_observation>();
  SLM_ASSIGN(const slm::json::Document document, ParseObject(options_text));
  SLM_ASSIGN(slm::evidence::ObserveOptions options, ParseObserve(document.root()));
  if (cases_text.size() > slm::capi::kMaxCasesBytes) return Fail(slm::capi::TooManyCases());
  SLM_ASSIGN(observation->cases, slm::evidence::ParseCases(cases_text));
  options.cases_sha256 = slm::Sha256Of(slm::AsBytes(cases_text));
  SLM_ASSIGN(observation->texts,
             ParseTexts(texts, observation->cases.size(), model.artifact->root(), options.cases_sha256));
  if (!like_bytes.empty()) {
    const slm::ByteSpan like = slm::AsBytes(like_bytes);
    SLM_ASSIGN(observation->like, slm::golden::Golden::FromBytes({like.begin(), like.end()}));
    options.like = observation->like.get();
  }
  observation->has_text = HasBlob(*model.artifact, "tokenizer-json");
  SLM_ASSIGN(observation->observer,
             slm::evidence::Observer::Create(model.artifact, model.model, std::move(options),
                                             [bytes = &observation->bytes](slm::ByteSpan part) -> Status {
                                               bytes->append(slm::AsText(part));
                                               return {};
                                             }));
  return observation;
}

// Runs the next case; it stays open until its text is known.
Status RunNextCase(slm_observation& observation, Writer& out) {
  const size_t index = observation.n_run;
  const slm::evidence::CaseSpec& spec = observation.cases[index];
  auto ids = observation.observer->Run(spec, std::move(observation.texts[index]));
  if (!ids) return Fail(slm::evidence::ErrorOfCase(std::move(ids).error(), spec, ""));
  ++observation.n_run;
  observation.is_open = observation.has_text && spec.max_new_tokens > 0;
  if (!observation.is_open) observation.observer->Close("");
  out.Key("done").Uint(observation.n_run).Key("total").Uint(observation.cases.size());
  if (!observation.is_open) return {};
  out.Key("ids").Uints(*ids);
  return {};
}

Status CheckClosed(const slm_observation& observation) {
  if (!observation.is_open) return {};
  return Fail(
      MakeError(ErrorCode::kUsage, "the text of the last case's ids comes first (slm_observation_text)")
          .Field("observation"));
}

}  // namespace

extern "C" {

SLM_EXPORT(slm_identity) int32_t slm_identity(slm_context* context, const uint8_t* name, size_t name_size) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& out) -> RecordStatus {
    slm::evidence::Backend backend;
    backend.name = TextAt(name, name_size);
    if (const auto fault = slm::FindUtf8Fault(backend.name))
      return Fail(
          MakeError(ErrorCode::kUtf8, "the backend's name is not well-formed UTF-8").At(fault->byte_offset));
    backend.kernel = slm::ops::KernelsFor(slm::Kernel::kScalar)->name;
    out.Key("abi").Uint(SLM_ABI_VERSION).Key("backend").BeginObject();
    out.Key("name").String(backend.name).Key("kernel").String(backend.kernel);
    out.Key("profile").String(backend.profile).Key("threads").Uint(backend.threads);
    out.Key("id").String(slm::ToHex(slm::NodeId(slm::evidence::BackendNode(backend)))).EndObject();
    return {};
  });
}

SLM_EXPORT(slm_artifact_new)
int32_t slm_artifact_new(slm_context* context, const uint8_t* header, size_t size, uint64_t file_size,
                         slm_artifact** out) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& answer) -> RecordStatus {
    SLM_ASSIGN(std::unique_ptr<slm_artifact> artifact,
               NewArtifact(slm::AsBytes(TextAt(header, size)), file_size));
    SLM_ASSIGN(const slm::FileHeader facts,
               slm::DecodeHeader(slm::AsBytes(TextAt(header, size)), artifact->buffer->size));
    answer.Key("root").String(slm::ToHex(artifact->root)).Key("file_size").Uint(facts.file_size);
    answer.Key("head_size").Uint(facts.data_offset).Key("chunk_size").Uint(slm::kSlmChunkSize);
    answer.Key("n_chunks").Uint(facts.table_size / sizeof(slm::Hash256));
    answer.Key("table_offset").Uint(facts.table_offset);
    *out = Keep(context, std::move(artifact));
    return {};
  });
}

SLM_EXPORT(slm_artifact_bytes) uint8_t* slm_artifact_bytes(slm_context* context, slm_artifact* artifact) {
  if (context == nullptr || !Knows(*context, artifact)) return nullptr;
  return artifact->buffer->memory.get();
}

SLM_EXPORT(slm_artifact_head) int32_t slm_artifact_head(slm_context* context, slm_artifact* artifact) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& out) -> RecordStatus {
    if (!Knows(*context, artifact)) return Fail(UnknownHandle("artifact"));
    SLM_ASSIGN(auto opened, slm::Artifact::FromSource(std::make_unique<BufferSource>(artifact->buffer),
                                                      slm::Verify::kHeaderOnly));
    if (opened->root() != artifact->root)
      return Fail(
          MakeError(ErrorCode::kSlmRoot, "the header is another one than slm_artifact_new was given").At(0));
    artifact->checked.assign(static_cast<size_t>(opened->n_chunks()), false);
    artifact->opened = std::move(opened);
    out.Key("root").String(slm::ToHex(artifact->root));
    return {};
  });
}

SLM_EXPORT(slm_artifact_chunk)
int32_t slm_artifact_chunk(slm_context* context, slm_artifact* artifact, uint32_t index,
                           const uint8_t* sha256) {
  if (context == nullptr) return kNullContext;
  const auto check = [&]() -> Status {
    if (!Knows(*context, artifact)) return Fail(UnknownHandle("artifact"));
    if (artifact->opened == nullptr || index >= artifact->checked.size()) {
      return Fail(MakeError(ErrorCode::kUsage, artifact->opened == nullptr ? "slm_artifact_head comes first"
                                                                           : "there is no such chunk")
                      .Field("index"));
    }
    slm::Hash256 hash{};
    if (sha256 != nullptr) std::memcpy(hash.data(), sha256, hash.size());
    SLM_TRY(artifact->opened->CheckChunk(index, sha256 == nullptr ? nullptr : &hash));
    artifact->checked[index] = true;
    return {};
  };
  context->result.clear();
  const Status status = check();
  return status ? 0 : Refuse(context, status.error());
}

SLM_EXPORT(slm_artifact_free) void slm_artifact_free(slm_context* context, slm_artifact* artifact) {
  if (context != nullptr) Drop(context, artifact);
}

SLM_EXPORT(slm_model_open)
int32_t slm_model_open(slm_context* context, slm_artifact* artifact, slm_model** out) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& answer) -> RecordStatus {
    if (!Knows(*context, artifact)) return Fail(UnknownHandle("artifact"));
    const auto unchecked = std::find(artifact->checked.begin(), artifact->checked.end(), false);
    if (artifact->opened == nullptr || unchecked != artifact->checked.end()) {
      return Fail(
          MakeError(ErrorCode::kUsage,
                    "chunk " + std::to_string(unchecked - artifact->checked.begin()) + " is not checked yet")
              .Field("artifact"));
    }
    auto model = std::make_unique<slm_model>();
    model->artifact = artifact->opened;
    SLM_ASSIGN(model->model, slm::Model::Load(model->artifact));
    WriteModel(*model->artifact, *model->model, answer);
    Drop(context, artifact);
    *out = Keep(context, std::move(model));
    return {};
  });
}

SLM_EXPORT(slm_model_free) void slm_model_free(slm_context* context, slm_model* model) {
  if (context != nullptr) Drop(context, model);
}

SLM_EXPORT(slm_model_texts) int32_t slm_model_texts(slm_context* context, slm_model* model) {
  if (context == nullptr) return kNullContext;
  if (!Knows(*context, model)) return Refuse(context, UnknownHandle("model"));
  const slm::Artifact& artifact = *model->artifact;
  context->result = slm::AsText(artifact.file().first(static_cast<size_t>(slm::EndOfTexts(artifact))));
  return 0;
}

SLM_EXPORT(slm_session_new)
int32_t slm_session_new(slm_context* context, slm_model* model, uint32_t max_positions, slm_session** out) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& answer) -> RecordStatus {
    if (!Knows(*context, model)) return Fail(UnknownHandle("model"));
    auto state = std::make_shared<SessionState>();
    state->artifact = model->artifact;
    SLM_ASSIGN(state->session, slm::Session::Create(model->model, {.max_positions = max_positions}));
    answer.Key("max_positions").Uint(state->session->max_positions());
    auto session = std::make_unique<slm_session>();
    session->state = std::move(state);
    *out = Keep(context, std::move(session));
    return {};
  });
}

SLM_EXPORT(slm_session_free) void slm_session_free(slm_context* context, slm_session* session) {
  if (context != nullptr) Drop(context, session);
}

SLM_EXPORT(slm_run_new)
int32_t slm_run_new(slm_context* context, slm_session* session, const uint8_t* record, size_t size,
                    const uint8_t* prompt, size_t prompt_size, slm_run** out) {
  if (context == nullptr) return kNullContext;
  return AnswerRecord(
      context, record, size, [&](const slm::json::Value& value, Writer& answer) -> RecordStatus {
        if (!Knows(*context, session)) return Fail(UnknownHandle("session"));
        SessionState& state = *session->state;
        SLM_ASSIGN(slm::records::Request request, slm::records::ParseRequest(value));
        SLM_ASSIGN(std::vector<uint32_t> ids, PromptIds(request, TextAt(prompt, prompt_size)));
        auto run = std::make_unique<slm_run>();
        SLM_ASSIGN(run->run,
                   slm::records::TokenRun::Create(*state.artifact, *state.session, std::move(request),
                                                  std::move(ids), {.reuse_prefix = true}));
        run->state = session->state;
        run->number = ++state.n_runs;
        answer.Key("n_prompt").Uint(run->run->prompt_ids().size()).Key("n_fed").Uint(run->run->n_fed());
        *out = Keep(context, std::move(run));
        return {};
      });
}

SLM_EXPORT(slm_run_prefill) int32_t slm_run_prefill(slm_context* context, slm_run* run, uint32_t count) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& out) -> RecordStatus {
    SLM_ASSIGN(slm::records::TokenRun* const live, LiveRun(*context, run));
    const uint64_t n_prompt = live->prompt_ids().size();
    if (n_prompt > 0 && live->n_fed() == n_prompt)
      return Fail(MakeError(ErrorCode::kUsage, "the prompt is fed already").Field("run"));
    SLM_TRY(live->Prefill(count));
    out.Key("n_fed").Uint(live->n_fed()).Key("n_prompt").Uint(n_prompt).Key("done").Bool(live->done());
    return {};
  });
}

SLM_EXPORT(slm_run_next) int32_t slm_run_next(slm_context* context, slm_run* run) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& out) -> RecordStatus {
    SLM_ASSIGN(slm::records::TokenRun* const live, LiveRun(*context, run));
    SLM_TRY(CheckFed(*live));
    if (live->done()) return Fail(MakeError(ErrorCode::kUsage, "the run is done").Field("run"));
    SLM_ASSIGN(const uint32_t id, live->Next());
    out.Key("id").Uint(id);
    if (!live->last_trace().empty()) out.Key("trace").Raw(live->last_trace());
    out.Key("done").Bool(live->done());
    return {};
  });
}

SLM_EXPORT(slm_run_stop) int32_t slm_run_stop(slm_context* context, slm_run* run) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& out) -> RecordStatus {
    SLM_ASSIGN(slm::records::TokenRun* const live, LiveRun(*context, run));
    SLM_TRY(CheckFed(*live));
    if (live->request().stop.empty() || live->n_tokens() == 0)
      return Fail(MakeError(ErrorCode::kUsage, "no token has completed a stop string").Field("run"));
    live->StopByString();
    out.Key("done").Bool(live->done());
    return {};
  });
}

SLM_EXPORT(slm_run_top) int32_t slm_run_top(slm_context* context, slm_run* run, uint32_t k) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& out) -> RecordStatus {
    SLM_ASSIGN(slm::records::TokenRun* const live, LiveRun(*context, run));
    SLM_TRY(CheckFed(*live));
    WriteTop(live->last_logits(), k, out);
    return {};
  });
}

SLM_EXPORT(slm_run_finish) int32_t slm_run_finish(slm_context* context, slm_run* run) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& out) -> RecordStatus {
    SLM_ASSIGN(slm::records::TokenRun* const live, LiveRun(*context, run));
    const slm::records::TokenAnswer answer = live->Finish();
    slm::records::WriteTokens(answer.prompt_ids, answer.generation.ids, out);
    slm::records::WriteEnd(live->request(), answer.generation, answer.kv_sha256, answer.trace, answer.n_vocab,
                           out);
    out.Key("warnings").Strings(answer.warnings);
    Drop(context, run);
    return {};
  });
}

SLM_EXPORT(slm_run_free) void slm_run_free(slm_context* context, slm_run* run) {
  if (context != nullptr) Drop(context, run);
}

SLM_EXPORT(slm_observation_new)
int32_t slm_observation_new(slm_context* context, slm_model* model, const uint8_t* options,
                            size_t options_size, const uint8_t* cases, size_t cases_size,
                            const uint8_t* texts, size_t texts_size, const uint8_t* like, size_t like_size,
                            slm_observation** out) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& answer) -> RecordStatus {
    if (!Knows(*context, model)) return Fail(UnknownHandle("model"));
    SLM_ASSIGN(std::unique_ptr<slm_observation> observation,
               NewObservation(*model, TextAt(options, options_size), TextAt(cases, cases_size),
                              TextAt(texts, texts_size), TextAt(like, like_size)));
    answer.Key("total").Uint(observation->cases.size());
    *out = Keep(context, std::move(observation));
    return {};
  });
}

SLM_EXPORT(slm_observation_next)
int32_t slm_observation_next(slm_context* context, slm_observation* observation) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& out) -> RecordStatus {
    if (!Knows(*context, observation)) return Fail(UnknownHandle("observation"));
    SLM_TRY(CheckClosed(*observation));
    if (observation->n_run == observation->cases.size())
      return Fail(MakeError(ErrorCode::kUsage, "every case has run").Field("observation"));
    if (Status status = RunNextCase(*observation, out); !status) {
      Drop(context, observation);
      return Fail(std::move(status).error());
    }
    return {};
  });
}

SLM_EXPORT(slm_observation_text)
int32_t slm_observation_text(slm_context* context, slm_observation* observation, const uint8_t* text,
                             size_t size) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer&) -> RecordStatus {
    if (!Knows(*context, observation)) return Fail(UnknownHandle("observation"));
    if (!observation->is_open)
      return Fail(MakeError(ErrorCode::kUsage, "no case waits for a text").Field("observation"));
    observation->observer->Close(TextAt(text, size));
    observation->is_open = false;
    return {};
  });
}

SLM_EXPORT(slm_observation_finish)
int32_t slm_observation_finish(slm_context* context, slm_observation* observation) {
  if (context == nullptr) return kNullContext;
  const auto finish = [&]() -> Status {
    if (!Knows(*context, observation)) return Fail(UnknownHandle("observation"));
    SLM_TRY(CheckClosed(*observation));
    if (observation->n_run < observation->cases.size())
      return Fail(MakeError(ErrorCode::kUsage, "not every case has run").Field("observation"));
    SLM_TRY(observation->observer->Finish());
    return {};
  };
  context->result.clear();
  if (const Status status = finish(); !status) return Refuse(context, status.error());
  context->result = std::move(observation->bytes);
  Drop(context, observation);
  return 0;
}

SLM_EXPORT(slm_observation_free)
void slm_observation_free(slm_context* context, slm_observation* observation) {
  if (context != nullptr) Drop(context, observation);
}

}  // extern "C"
