#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "capi/slm.h"
#include "codec/json.h"
#include "codec/sha256.h"
#include "compare/compare.h"
#include "compare/policy.h"
#include "evidence/browser_run.h"
#include "evidence/build_nodes.h"
#include "evidence/bundle.h"
#include "evidence/candidate.h"
#include "evidence/objects.h"
#include "evidence/observe.h"
#include "evidence/promote.h"
#include "evidence/receipt.h"
#include "evidence/verify.h"
#include "golden/golden.h"
#include "identity/node.h"
#include "records/record.h"
#include "records/render_record.h"
#include "records/run_record.h"
#include "records/token_record.h"
#include "runtime/session.h"
#include "slm_file/artifact.h"
#include "slm_file/file_header.h"

#ifdef __wasm__
#define SLM_EXPORT(name) __attribute__((export_name(#name)))
#else
#define SLM_EXPORT(name) __attribute__((visibility("default")))
#endif

namespace {

using slm::Error;
using slm::ErrorCode;
using slm::Fail;
using slm::MakeError;
using slm::Result;
using slm::Status;
using slm::json::Writer;
using slm::records::RecordStatus;

constexpr size_t kBufferAlign = 64;
constexpr uint64_t kMaxRecordBytes = slm::records::kMaxLineBytes;
constexpr uint64_t kMaxCasesBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxProblems = 1000;  // in one answer

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
  std::shared_ptr<const slm::evidence::Candidate> candidate;
  std::unique_ptr<slm::Session> session;
  uint64_t n_runs = 0;  // number of the run that may use the session
};

}  // namespace

struct slm_artifact {
  std::shared_ptr<Buffer> buffer;
  slm::Hash256 root{};
  std::shared_ptr<const slm::Artifact> opened;  // after slm_artifact_head
  std::vector<bool> checked;                    // of each chunk
};

struct slm_model {
  std::shared_ptr<const slm::evidence::Candidate> candidate;
  // Of the template, or why there is none.
  Result<slm::records::TemplateModel> template_model = slm::records::TemplateModel();
  std::optional<slm::records::TemplateCache> templates;  // of the template, made when first asked for
};

struct slm_session {
  std::shared_ptr<SessionState> state;
};

struct slm_run {
  std::shared_ptr<SessionState> state;
  uint64_t number = 0;
  std::unique_ptr<slm::records::Run> run;
};

struct slm_objects {
  slm::evidence::MemoryObjects held;
};

struct slm_context {
  std::string result;
  std::vector<std::unique_ptr<slm_artifact>> artifacts;
  std::vector<std::unique_ptr<slm_model>> models;
  std::vector<std::unique_ptr<slm_session>> sessions;
  std::vector<std::unique_ptr<slm_run>> runs;
  std::vector<std::unique_ptr<slm_objects>> objects;
};

namespace {

constexpr auto kNullContext = static_cast<int32_t>(ErrorCode::kUsage);

std::string_view TextAt(const uint8_t* data, size_t size) {
  return data == nullptr ? std::string_view() : std::string_view(reinterpret_cast<const char*>(data), size);
}

int32_t Refuse(slm_context* context, const Error& error, const slm::records::ErrorPlace& place = {}) {
  context->result = slm::records::ErrorJson(error, place);
  return static_cast<int32_t>(error.code);
}

// `write` puts the members of the answer into an open object.
template <typename Write>
int32_t AnswerWith(slm_context* context, Write&& write) {
  Writer out;
  out.BeginObject();
  const RecordStatus status = write(out);
  if (!status) return Refuse(context, status.error().error, status.error().place);
  context->result = out.EndObject().Take();
  return 0;
}

template <typename T>
bool Knows(const std::vector<std::unique_ptr<T>>& known, const T* handle) {
  return std::any_of(known.begin(), known.end(), [handle](const auto& one) { return one.get() == handle; });
}

template <typename T>
void Drop(std::vector<std::unique_ptr<T>>* known, const T* handle) {
  std::erase_if(*known, [handle](const auto& one) { return one.get() == handle; });
}

template <typename T>
T* Keep(std::vector<std::unique_ptr<T>>* known, std::unique_ptr<T> object) {
  known->push_back(std::move(object));
  return known->back().get();
}

Error UnknownHandle(std::string_view kind) {
  return MakeError(ErrorCode::kUsage,
                   "no handle of this context: this " + std::string(kind) + " was freed, or never made")
      .Field(kind);
}

// One record line, answered as a batch answers it.
int32_t AnswerRecord(slm_context* context, const uint8_t* record, size_t size,
                     const slm::records::Handler& handle) {
  const bool too_long = size > kMaxRecordBytes;
  slm::records::AnsweredLine answer = slm::records::AnswerLine(
      too_long ? std::string() : std::string(TextAt(record, size)), too_long, handle);
  context->result = std::move(answer.text);
  return answer.code ? static_cast<int32_t>(*answer.code) : 0;
}

Result<slm::json::Document> ParseObject(std::string_view text) {
  SLM_ASSIGN(slm::json::Document document,
             slm::json::Parse(std::string(text), {.max_bytes = kMaxRecordBytes}));
  if (!document.root().is_object())
    return Fail(
        MakeError(ErrorCode::kJsonType, "one JSON object is expected").At(document.root().byte_offset()));
  return document;
}

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

void WriteIds(std::string_view key, const std::vector<uint32_t>& ids, Writer& out) {
  out.Key(key).BeginArray();
  for (const uint32_t id : ids) out.Uint(id);
  out.EndArray();
}

void WriteVisible(std::string_view text, Writer& out) {
  out.Key("bytes").String(slm::ToBase64(slm::AsBytes(text)));
  if (!slm::FindUtf8Fault(text)) out.Key("text").String(text);
}

void WriteModel(const slm::evidence::Candidate& candidate, Writer& out) {
  const slm::Artifact& artifact = candidate.artifact();
  const slm::EffectiveConfig& config = candidate.model()->config();
  const slm::Plan& plan = candidate.model()->plan();
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
  out.Key("tokenizer").Bool(candidate.tokenizer() != nullptr);
  out.Key("template").Bool(candidate.chat_template() != nullptr);
  out.Key("observations").BeginArray();
  for (const slm::Step& step : plan.steps) {
    if (!step.observation.empty()) out.String(step.observation);
  }
  out.EndArray();
}

Status NeedsTokenizer(const slm::evidence::Candidate& candidate) {
  if (candidate.tokenizer() != nullptr) return {};
  return Fail(ErrorCode::kUnsupported, "the artifact has no tokenizer; give token ids");
}

void WritePrompt(const slm::records::Run& run, Writer& out) {
  const slm::evidence::Prompt& prompt = run.prompt();
  WriteIds("prompt_ids", prompt.ids, out);
  out.Key("n_fed").Uint(run.n_fed());
  if (prompt.rendered) {
    out.Key("rendered").BeginObject();
    slm::records::WriteRendered(*prompt.rendered, out);
    out.EndObject();
  }
  if (!prompt.encoding) return;
  out.Key("text").String(prompt.rendered ? std::string_view(prompt.rendered->text)
                                         : slm::AsText(run.request().spec.data));
  out.Key("offsets").BeginObject();
  slm::records::WriteOffsets("byte", prompt.encoding->byte_offsets, out);
  slm::records::WriteOffsets("scalar", prompt.encoding->scalar_offsets, out);
  out.EndObject();
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
Result<slm::records::Run*> LiveRun(const slm_context& context, const slm_run* run) {
  if (!Knows(context.runs, run)) return Fail(UnknownHandle("run"));
  if (run->number != run->state->n_runs)
    return Fail(MakeError(ErrorCode::kUsage, "a later run uses the session; this one is over").Field("run"));
  return run->run.get();
}

Status CheckFed(const slm::records::Run& run) {
  if (run.n_fed() == run.prompt().ids.size()) return {};
  return Fail(MakeError(ErrorCode::kUsage, "the prompt is not fed yet").Field("run"));
}

Error BadOption(slm::json::Value value, std::string_view name, std::string_view what) {
  return MakeError(ErrorCode::kCaseSchema, std::string(name) + " is " + std::string(what))
      .At(value.byte_offset())
      .Field(name);
}

Result<uint64_t> UintOption(const slm::json::Value& value, std::string_view name) {
  const auto number = value.is_number() ? value.AsUint() : std::nullopt;
  if (!number || *number > UINT32_MAX) return Fail(BadOption(value, name, "a whole number of 32 bits"));
  return *number;
}

struct ObserveRequest {
  slm::evidence::ObserveOptions options;
  bool progress = false;
};

Result<ObserveRequest> ParseObserve(const slm::json::Value& record) {
  SLM_TRY(slm::records::OnlyMembers(record, {"backend", "taps", "top_k", "prefill_chunk", "progress"}));
  ObserveRequest request;
  const auto backend = record.Find("backend");
  if (!backend || !backend->is_string() || backend->string().empty())
    return Fail(BadOption(backend.value_or(record), "backend", "the name of this backend, a text"));
  request.options.backend = backend->string();
  if (const auto taps = record.Find("taps"); taps && !(taps->is_string() && taps->string() == "all")) {
    if (!taps->is_array()) return Fail(BadOption(*taps, "taps", "\"all\" or an array of names"));
    request.options.all_taps = false;
    for (const slm::json::Value name : taps->children()) {
      if (!name.is_string()) return Fail(BadOption(name, "taps", "\"all\" or an array of names"));
      request.options.taps.emplace_back(name.string());
    }
  }
  if (const auto top_k = record.Find("top_k")) {
    SLM_ASSIGN(request.options.top_k, UintOption(*top_k, "top_k"));
  }
  if (const auto chunk = record.Find("prefill_chunk")) {
    SLM_ASSIGN(request.options.prefill_chunk, UintOption(*chunk, "prefill_chunk"));
  }
  if (const auto progress = record.Find("progress")) {
    if (!progress->is_bool()) return Fail(BadOption(*progress, "progress", "true or false"));
    request.progress = progress->boolean();
  }
  return request;
}

// A line for whoever reads file descriptor 1. Nothing depends on whether it arrives.
void WriteProgress(uint64_t done, uint64_t total) {
  const std::string line =
      "{\"done\":" + std::to_string(done) + ",\"total\":" + std::to_string(total) + "}\n";
  for (size_t at = 0; at < line.size();) {
    const ssize_t written = write(STDOUT_FILENO, line.data() + at, line.size() - at);
    if (written <= 0) return;
    at += static_cast<size_t>(written);
  }
}

Result<std::string> ObserveToBytes(const slm::evidence::Candidate& candidate, std::string_view options,
                                   std::string_view cases_text, std::string_view like_bytes) {
  SLM_ASSIGN(const slm::json::Document document, ParseObject(options));
  SLM_ASSIGN(ObserveRequest request, ParseObserve(document.root()));
  if (cases_text.size() > kMaxCasesBytes)
    return Fail(MakeError(ErrorCode::kLimit, "a cases file of more than 64 MiB").At(kMaxCasesBytes));
  SLM_ASSIGN(const auto cases, slm::evidence::ParseCases(cases_text));
  request.options.cases_sha256 = slm::Sha256Of(slm::AsBytes(cases_text));
  std::shared_ptr<const slm::golden::Golden> like;
  if (!like_bytes.empty()) {
    SLM_ASSIGN(like, slm::golden::Golden::Open(slm::AsBytes(like_bytes)));
    request.options.like = like.get();
  }
  if (request.progress) request.options.on_progress = WriteProgress;
  std::string bytes;
  SLM_TRY(slm::evidence::Observe(candidate, cases, request.options, [&bytes](slm::ByteSpan part) -> Status {
    bytes.append(slm::AsText(part));
    return {};
  }));
  return bytes;
}

Result<slm::Hash256> IdOf(const slm::json::Value& value, std::string_view name) {
  slm::Hash256 id{};
  if (!value.is_string() || !slm::HashFromHex(value.string(), &id))
    return Fail(BadOption(value, name, "an id: 64 hexadecimal digits"));
  return id;
}

Result<slm::json::Value> Needed(const slm::json::Value& record, std::string_view name) {
  const auto value = record.Find(name);
  if (!value) return Fail(BadOption(record, name, "missing"));
  return *value;
}

// A container that is among the blobs. It reads the bytes where they lie.
Result<std::shared_ptr<const slm::golden::Golden>> ContainerOf(const slm_objects& objects,
                                                               const slm::json::Value& id_text,
                                                               std::string_view name) {
  SLM_ASSIGN(const slm::Hash256 id, IdOf(id_text, name));
  const auto blob = objects.held.blobs.find(id);
  if (blob == objects.held.blobs.end())
    return Fail(MakeError(ErrorCode::kNotFound, "no blob " + slm::ToHex(id)).Field(name));
  auto opened = slm::golden::Golden::Open(blob->second);
  if (!opened.has_value()) return Fail(std::move(opened).error().In(name));
  return opened;
}

Result<std::string> CompareToJson(const slm_objects& objects, std::string_view request) {
  SLM_ASSIGN(const slm::json::Document document, ParseObject(request));
  const slm::json::Value root = document.root();
  SLM_TRY(slm::records::OnlyMembers(root, {"references", "candidate", "policy"}));
  SLM_ASSIGN(const slm::json::Value references, Needed(root, "references"));
  if (!references.is_array()) return Fail(BadOption(references, "references", "an array of ids"));
  std::vector<std::shared_ptr<const slm::golden::Golden>> opened;
  std::vector<const slm::golden::Golden*> pointers;
  for (const slm::json::Value id : references.children()) {
    SLM_ASSIGN(auto container, ContainerOf(objects, id, "references"));
    pointers.push_back(container.get());
    opened.push_back(std::move(container));
  }
  SLM_ASSIGN(const slm::json::Value candidate_id, Needed(root, "candidate"));
  SLM_ASSIGN(const auto candidate, ContainerOf(objects, candidate_id, "candidate"));
  slm::compare::Evidence evidence;
  if (pointers.size() == 1) {
    evidence.reference = pointers.front();
  } else {
    SLM_ASSIGN(evidence, slm::compare::SortEvidence(pointers));
  }
  slm::compare::Policy policy;
  if (const auto policy_id = root.Find("policy")) {
    SLM_ASSIGN(const slm::Hash256 id, IdOf(*policy_id, "policy"));
    SLM_ASSIGN(const slm::Bytes text, slm::evidence::ReadBlob(objects.held.Source(), id));
    SLM_ASSIGN(policy, slm::compare::ParsePolicy(slm::AsText(text)));
  } else {
    SLM_ASSIGN(policy, slm::compare::PolicyFor(evidence, *candidate));
  }
  SLM_ASSIGN(const auto comparison, slm::compare::Compare(evidence, *candidate, policy));
  return slm::compare::ComparisonToJson(comparison);
}

Result<std::string> VerifyToJson(const slm_objects& objects, std::string_view request) {
  SLM_ASSIGN(const slm::json::Document document, ParseObject(request));
  SLM_TRY(slm::records::OnlyMembers(document.root(), {"receipt"}));
  SLM_ASSIGN(const slm::json::Value receipt, Needed(document.root(), "receipt"));
  SLM_ASSIGN(const slm::Hash256 id, IdOf(receipt, "receipt"));
  SLM_ASSIGN(const auto verification, slm::evidence::Verify(objects.held.Source(), id, {}));
  return slm::evidence::VerificationToJson(verification, kMaxProblems);
}

Result<slm::Hash256> NeededId(const slm::json::Value& record, std::string_view name) {
  SLM_ASSIGN(const slm::json::Value value, Needed(record, name));
  return IdOf(value, name);
}

Result<std::string> WriteBundle(const slm_objects& objects, std::string_view request) {
  SLM_ASSIGN(const slm::json::Document document, ParseObject(request));
  SLM_TRY(slm::records::OnlyMembers(document.root(), {"receipt", "base"}));
  SLM_ASSIGN(const slm::Hash256 receipt, NeededId(document.root(), "receipt"));
  std::optional<slm::Hash256> base;
  if (document.root().Find("base")) {
    SLM_ASSIGN(base, NeededId(document.root(), "base"));
  }
  SLM_ASSIGN(const slm::evidence::Bundle bundle,
             slm::evidence::CollectBundle(objects.held.Source(), receipt, base ? &*base : nullptr));
  return std::string(slm::AsText(slm::evidence::EncodeBundle(bundle)));
}

Result<std::string> ReceiptParts(const slm_objects& objects, std::string_view request) {
  SLM_ASSIGN(const slm::json::Document document, ParseObject(request));
  SLM_TRY(slm::records::OnlyMembers(document.root(), {"receipt"}));
  SLM_ASSIGN(const slm::Hash256 receipt, NeededId(document.root(), "receipt"));
  const slm::evidence::ObjectSource source = objects.held.Source();
  SLM_ASSIGN(const slm::Node promotion, slm::evidence::ReadNode(source, receipt));
  if (promotion.type != "promotion")
    return Fail(MakeError(ErrorCode::kNodeType, "a " + promotion.type + ", no promotion").Field("receipt"));
  const auto child = [&](std::string_view role) -> Result<slm::Node> {
    const slm::Hash256* id = promotion.Child(role);
    if (id == nullptr)
      return Fail(MakeError(ErrorCode::kGraphMissingChild, "the promotion lacks a child").Field(role));
    return slm::evidence::ReadNode(source, *id);
  };
  using slm::evidence::HashOf;
  using slm::evidence::TextOf;
  SLM_ASSIGN(const slm::Node acquisition, child("acquisition"));
  SLM_ASSIGN(const slm::Node artifact, child("artifact"));
  SLM_ASSIGN(const slm::Node suite, child("case-suite"));
  SLM_ASSIGN(const slm::Node policy, child("tolerance-policy"));
  SLM_ASSIGN(const slm::Node observation, child("observation"));
  SLM_ASSIGN(const slm::Node build, child("runtime-build"));
  Writer out;
  out.BeginObject().Key("backend").String(TextOf(promotion, "backend"));
  out.Key("source").BeginObject().Key("name").String(TextOf(acquisition, "name"));
  out.Key("revision").String(TextOf(acquisition, "revision")).EndObject();
  out.Key("artifact").BeginObject().Key("root").String(slm::ToHex(HashOf(artifact, "root")));
  out.Key("sha256").String(slm::ToHex(HashOf(artifact, "file_sha256"))).EndObject();
  const slm::cbor::Value* n_cases = suite.metadata.Find("n_cases");
  out.Key("cases").String(slm::ToHex(HashOf(suite, "blob")));
  out.Key("n_cases").Uint(n_cases != nullptr && n_cases->AsUint() != nullptr ? *n_cases->AsUint() : 0);
  out.Key("policy").String(slm::ToHex(HashOf(policy, "blob")));
  out.Key("observation").String(slm::ToHex(HashOf(observation, "blob")));
  out.Key("evidence").BeginArray();
  for (const slm::Hash256& id : promotion.Children("oracle-run")) {
    SLM_ASSIGN(const slm::Node run, slm::evidence::ReadNode(source, id));
    out.BeginObject().Key("mode").String(TextOf(run, "mode"));
    out.Key("blob").String(slm::ToHex(HashOf(run, "blob"))).EndObject();
  }
  out.EndArray().Key("module").String(slm::ToHex(HashOf(build, "executable_sha256")));
  const slm::cbor::Value* engine = observation.metadata.Find("engine");
  out.Key("engine").Raw(engine == nullptr ? "null" : slm::cbor::ToJson(*engine, false)).EndObject();
  return out.Take();
}

Result<std::string> PromoteToJson(slm_objects* objects, std::string_view request) {
  SLM_ASSIGN(const slm::json::Document document, ParseObject(request));
  const slm::json::Value root = document.root();
  SLM_TRY(slm::records::OnlyMembers(root, {"base", "candidate", "made_by"}));
  SLM_ASSIGN(const slm::Hash256 base, NeededId(root, "base"));
  SLM_ASSIGN(const slm::json::Value made_by, Needed(root, "made_by"));
  SLM_ASSIGN(slm::evidence::BrowserRun run,
             slm::evidence::ParseBrowserRun(std::string(made_by.source_text())));
  const slm::evidence::ObjectSource source = objects->held.Source();
  SLM_ASSIGN(slm::evidence::PromotionParts parts, slm::evidence::PartsOfPromotion(source, base));
  SLM_ASSIGN(parts.observation_blob, NeededId(root, "candidate"));
  parts.build = std::move(run.build);
  parts.backend = std::move(run.backend);
  parts.engine = std::move(run.engine);
  SLM_ASSIGN(const slm::evidence::Promotion promotion,
             slm::evidence::WritePromotion(source, objects->held.Sink(), parts));
  Writer out;
  out.BeginObject().Key("receipt").String(slm::ToHex(promotion.receipt));
  out.Key("holds").Bool(promotion.Holds());
  out.Key("comparison").Raw(slm::compare::ComparisonToJson(promotion.comparison)).EndObject();
  return out.Take();
}

// A call on objects whose answer is a text of its own.
int32_t AnswerFrom(slm_context* context, const slm_objects* objects, std::string_view request,
                   Result<std::string> (*answer)(const slm_objects&, std::string_view)) {
  if (!Knows(context->objects, objects)) return Refuse(context, UnknownHandle("objects"));
  context->result.clear();
  Result<std::string> text = answer(*objects, request);
  if (!text) return Refuse(context, text.error());
  context->result = *std::move(text);
  return 0;
}

}  // namespace

extern "C" {

SLM_EXPORT(slm_abi_version) uint32_t slm_abi_version(void) {
  return SLM_ABI_VERSION;
}

SLM_EXPORT(slm_context_new) slm_context* slm_context_new(void) {
  return new (std::nothrow) slm_context();
}

SLM_EXPORT(slm_context_free) void slm_context_free(slm_context* context) {
  delete context;
}

SLM_EXPORT(slm_result_data) const uint8_t* slm_result_data(const slm_context* context) {
  return context == nullptr ? nullptr : reinterpret_cast<const uint8_t*>(context->result.data());
}

SLM_EXPORT(slm_result_size) size_t slm_result_size(const slm_context* context) {
  return context == nullptr ? 0 : context->result.size();
}

SLM_EXPORT(slm_sha256) void slm_sha256(const uint8_t* data, size_t size, uint8_t* out) {
  const slm::Hash256 hash = slm::Sha256Of(slm::AsBytes(TextAt(data, size)));
  std::memcpy(out, hash.data(), hash.size());
}

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
    *out = Keep(&context->artifacts, std::move(artifact));
    return {};
  });
}

SLM_EXPORT(slm_artifact_bytes) uint8_t* slm_artifact_bytes(slm_context* context, slm_artifact* artifact) {
  if (context == nullptr || !Knows(context->artifacts, artifact)) return nullptr;
  return artifact->buffer->memory.get();
}

SLM_EXPORT(slm_artifact_head) int32_t slm_artifact_head(slm_context* context, slm_artifact* artifact) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& out) -> RecordStatus {
    if (!Knows(context->artifacts, artifact)) return Fail(UnknownHandle("artifact"));
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
    if (!Knows(context->artifacts, artifact)) return Fail(UnknownHandle("artifact"));
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
  if (context != nullptr) Drop(&context->artifacts, artifact);
}

SLM_EXPORT(slm_model_open)
int32_t slm_model_open(slm_context* context, slm_artifact* artifact, slm_model** out) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& answer) -> RecordStatus {
    if (!Knows(context->artifacts, artifact)) return Fail(UnknownHandle("artifact"));
    const auto unchecked = std::find(artifact->checked.begin(), artifact->checked.end(), false);
    if (artifact->opened == nullptr || unchecked != artifact->checked.end()) {
      return Fail(
          MakeError(ErrorCode::kUsage,
                    "chunk " + std::to_string(unchecked - artifact->checked.begin()) + " is not checked yet")
              .Field("artifact"));
    }
    auto model = std::make_unique<slm_model>();
    SLM_ASSIGN(model->candidate, slm::evidence::Candidate::Open(artifact->opened));
    model->template_model = slm::records::TemplateOfArtifact(*artifact->opened, "");
    WriteModel(*model->candidate, answer);
    Drop(&context->artifacts, artifact);
    *out = Keep(&context->models, std::move(model));
    return {};
  });
}

SLM_EXPORT(slm_model_free) void slm_model_free(slm_context* context, slm_model* model) {
  if (context != nullptr) Drop(&context->models, model);
}

SLM_EXPORT(slm_tokenize)
int32_t slm_tokenize(slm_context* context, slm_model* model, const uint8_t* record, size_t size) {
  if (context == nullptr) return kNullContext;
  return AnswerRecord(context, record, size, [&](const slm::json::Value& value, Writer& out) -> RecordStatus {
    if (!Knows(context->models, model)) return Fail(UnknownHandle("model"));
    SLM_TRY(NeedsTokenizer(*model->candidate));
    SLM_TRY(slm::records::TokenizeRecord(*model->candidate->tokenizer(), value, out));
    return {};
  });
}

SLM_EXPORT(slm_detokenize)
int32_t slm_detokenize(slm_context* context, slm_model* model, const uint8_t* record, size_t size) {
  if (context == nullptr) return kNullContext;
  return AnswerRecord(context, record, size, [&](const slm::json::Value& value, Writer& out) -> RecordStatus {
    if (!Knows(context->models, model)) return Fail(UnknownHandle("model"));
    SLM_TRY(NeedsTokenizer(*model->candidate));
    SLM_TRY(slm::records::DetokenizeRecord(*model->candidate->tokenizer(), value, out));
    return {};
  });
}

SLM_EXPORT(slm_render)
int32_t slm_render(slm_context* context, slm_model* model, const uint8_t* record, size_t size) {
  if (context == nullptr) return kNullContext;
  return AnswerRecord(context, record, size, [&](const slm::json::Value& value, Writer& out) -> RecordStatus {
    if (!Knows(context->models, model)) return Fail(UnknownHandle("model"));
    if (!model->template_model) return Fail(model->template_model.error());
    if (!model->templates) model->templates.emplace(*model->template_model, slm::chat::Template::Compile);
    return slm::records::RenderRecord(*model->templates, value, out);
  });
}

SLM_EXPORT(slm_session_new)
int32_t slm_session_new(slm_context* context, slm_model* model, uint32_t max_positions, slm_session** out) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& answer) -> RecordStatus {
    if (!Knows(context->models, model)) return Fail(UnknownHandle("model"));
    auto state = std::make_shared<SessionState>();
    state->candidate = model->candidate;
    SLM_ASSIGN(state->session,
               slm::Session::Create(model->candidate->model(), {.max_positions = max_positions}));
    answer.Key("max_positions").Uint(state->session->max_positions());
    auto session = std::make_unique<slm_session>();
    session->state = std::move(state);
    *out = Keep(&context->sessions, std::move(session));
    return {};
  });
}

SLM_EXPORT(slm_session_free) void slm_session_free(slm_context* context, slm_session* session) {
  if (context != nullptr) Drop(&context->sessions, session);
}

SLM_EXPORT(slm_run_new)
int32_t slm_run_new(slm_context* context, slm_session* session, const uint8_t* record, size_t size,
                    slm_run** out) {
  if (context == nullptr) return kNullContext;
  return AnswerRecord(
      context, record, size, [&](const slm::json::Value& value, Writer& answer) -> RecordStatus {
        if (!Knows(context->sessions, session)) return Fail(UnknownHandle("session"));
        SessionState& state = *session->state;
        SLM_ASSIGN(slm::records::Request request, slm::records::ParseRequest(value));
        auto run = std::make_unique<slm_run>();
        SLM_ASSIGN(run->run, slm::records::Run::Create(*state.candidate, *state.session, std::move(request),
                                                       {.reuse_prefix = true}));
        run->state = session->state;
        run->number = ++state.n_runs;
        WritePrompt(*run->run, answer);
        *out = Keep(&context->runs, std::move(run));
        return {};
      });
}

SLM_EXPORT(slm_run_prefill) int32_t slm_run_prefill(slm_context* context, slm_run* run, uint32_t count) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& out) -> RecordStatus {
    SLM_ASSIGN(slm::records::Run* const live, LiveRun(*context, run));
    const uint64_t n_prompt = live->prompt().ids.size();
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
    SLM_ASSIGN(slm::records::Run* const live, LiveRun(*context, run));
    SLM_TRY(CheckFed(*live));
    if (live->done()) return Fail(MakeError(ErrorCode::kUsage, "the run is done").Field("run"));
    SLM_ASSIGN(const slm::records::Run::Step step, live->Next());
    out.Key("id").Uint(step.id);
    WriteVisible(step.text, out);
    if (!live->last_trace().empty()) out.Key("trace").Raw(live->last_trace());
    out.Key("done").Bool(live->done());
    return {};
  });
}

SLM_EXPORT(slm_run_top) int32_t slm_run_top(slm_context* context, slm_run* run, uint32_t k) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& out) -> RecordStatus {
    SLM_ASSIGN(slm::records::Run* const live, LiveRun(*context, run));
    SLM_TRY(CheckFed(*live));
    WriteTop(live->last_logits(), k, out);
    return {};
  });
}

SLM_EXPORT(slm_run_finish) int32_t slm_run_finish(slm_context* context, slm_run* run) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& out) -> RecordStatus {
    SLM_ASSIGN(slm::records::Run* const live, LiveRun(*context, run));
    SLM_ASSIGN(const slm::records::Run::End end, live->Finish());
    slm::records::WriteAnswer(live->request(), end.answer, out);
    out.Key("tail").String(slm::ToBase64(slm::AsBytes(end.text)));
    out.Key("warnings").BeginArray();
    for (const std::string& warning : end.answer.warnings) out.String(warning);
    out.EndArray();
    Drop(&context->runs, run);
    return {};
  });
}

SLM_EXPORT(slm_run_free) void slm_run_free(slm_context* context, slm_run* run) {
  if (context != nullptr) Drop(&context->runs, run);
}

SLM_EXPORT(slm_observe)
int32_t slm_observe(slm_context* context, slm_model* model, const uint8_t* options, size_t options_size,
                    const uint8_t* cases, size_t cases_size, const uint8_t* like, size_t like_size) {
  if (context == nullptr) return kNullContext;
  if (!Knows(context->models, model)) return Refuse(context, UnknownHandle("model"));
  context->result.clear();
  Result<std::string> bytes = ObserveToBytes(*model->candidate, TextAt(options, options_size),
                                             TextAt(cases, cases_size), TextAt(like, like_size));
  if (!bytes) return Refuse(context, bytes.error());
  context->result = *std::move(bytes);
  return 0;
}

SLM_EXPORT(slm_objects_new) int32_t slm_objects_new(slm_context* context, slm_objects** out) {
  if (context == nullptr) return kNullContext;
  context->result.clear();
  *out = Keep(&context->objects, std::make_unique<slm_objects>());
  return 0;
}

SLM_EXPORT(slm_objects_free) void slm_objects_free(slm_context* context, slm_objects* objects) {
  if (context != nullptr) Drop(&context->objects, objects);
}

SLM_EXPORT(slm_objects_add)
int32_t slm_objects_add(slm_context* context, slm_objects* objects, uint32_t kind, const uint8_t* data,
                        size_t size) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& out) -> RecordStatus {
    if (!Knows(context->objects, objects)) return Fail(UnknownHandle("objects"));
    if (kind > 1) return Fail(MakeError(ErrorCode::kUsage, "a kind is 0 (blob) or 1 (node)").Field("kind"));
    const slm::ByteSpan bytes = slm::AsBytes(TextAt(data, size));
    const slm::Hash256 id = slm::Sha256Of(bytes);
    auto& held = kind == 0 ? objects->held.blobs : objects->held.nodes;
    held.try_emplace(id, bytes.begin(), bytes.end());
    out.Key("id").String(slm::ToHex(id));
    return {};
  });
}

SLM_EXPORT(slm_objects_read)
int32_t slm_objects_read(slm_context* context, slm_objects* objects, const uint8_t* bundle, size_t size) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& out) -> RecordStatus {
    if (!Knows(context->objects, objects)) return Fail(UnknownHandle("objects"));
    SLM_ASSIGN(slm::evidence::Bundle read, slm::evidence::DecodeBundle(slm::AsBytes(TextAt(bundle, size))));
    out.Key("receipt").String(slm::ToHex(read.receipt));
    out.Key("nodes").Uint(read.objects.nodes.size()).Key("blobs").Uint(read.objects.blobs.size());
    objects->held.nodes.merge(read.objects.nodes);
    objects->held.blobs.merge(read.objects.blobs);
    return {};
  });
}

SLM_EXPORT(slm_objects_write)
int32_t slm_objects_write(slm_context* context, slm_objects* objects, const uint8_t* request, size_t size) {
  if (context == nullptr) return kNullContext;
  return AnswerFrom(context, objects, TextAt(request, size), WriteBundle);
}

SLM_EXPORT(slm_objects_get)
int32_t slm_objects_get(slm_context* context, slm_objects* objects, uint32_t kind, const uint8_t* id) {
  if (context == nullptr) return kNullContext;
  if (!Knows(context->objects, objects)) return Refuse(context, UnknownHandle("objects"));
  if (kind > 1 || id == nullptr)
    return Refuse(context, MakeError(ErrorCode::kUsage, "a kind is 0 (blob) or 1 (node), an id is needed"));
  context->result.clear();
  slm::Hash256 hash{};
  std::memcpy(hash.data(), id, hash.size());
  const slm::evidence::ObjectSource source = objects->held.Source();
  const auto bytes = kind == 0 ? slm::evidence::ReadBlob(source, hash) : source.node(hash);
  if (!bytes.has_value()) return Refuse(context, bytes.error());
  context->result.assign(slm::AsText(*bytes));
  return 0;
}

SLM_EXPORT(slm_receipt_parts)
int32_t slm_receipt_parts(slm_context* context, slm_objects* objects, const uint8_t* request, size_t size) {
  if (context == nullptr) return kNullContext;
  return AnswerFrom(context, objects, TextAt(request, size), ReceiptParts);
}

SLM_EXPORT(slm_promote)
int32_t slm_promote(slm_context* context, slm_objects* objects, const uint8_t* request, size_t size) {
  if (context == nullptr) return kNullContext;
  if (!Knows(context->objects, objects)) return Refuse(context, UnknownHandle("objects"));
  context->result.clear();
  Result<std::string> text = PromoteToJson(objects, TextAt(request, size));
  if (!text) return Refuse(context, text.error());
  context->result = *std::move(text);
  return 0;
}

SLM_EXPORT(slm_compare)
int32_t slm_compare(slm_context* context, slm_objects* objects, const uint8_t* request, size_t size) {
  if (context == nullptr) return kNullContext;
  return AnswerFrom(context, objects, TextAt(request, size), CompareToJson);
}

SLM_EXPORT(slm_verify)
int32_t slm_verify(slm_context* context, slm_objects* objects, const uint8_t* request, size_t size) {
  if (context == nullptr) return kNullContext;
  return AnswerFrom(context, objects, TextAt(request, size), VerifyToJson);
}

#ifndef __wasm__
// Of the module: module_memory.cc.
SLM_EXPORT(slm_memory_fault) const uint64_t* slm_memory_fault(void) {
  static constexpr uint64_t kNone[3] = {};
  return kNone;
}

SLM_EXPORT(slm_alloc) void* slm_alloc(size_t size) {
  return std::malloc(size == 0 ? 1 : size);
}

SLM_EXPORT(slm_free) void slm_free(void* memory) {
  std::free(memory);
}
#endif

}  // extern "C"
