// The C ABI of evidence: objects in memory, comparisons, promotions, verification; and of templates. No model
// runs here.
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "capi/handles.h"
#include "chat/template.h"
#include "codec/cbor.h"
#include "codec/sha256.h"
#include "compare/compare.h"
#include "compare/policy.h"
#include "evidence/browser_run.h"
#include "evidence/bundle.h"
#include "evidence/objects.h"
#include "evidence/promote.h"
#include "evidence/receipt.h"
#include "evidence/verify.h"
#include "golden/golden.h"
#include "identity/node.h"
#include "records/render_record.h"

struct slm_objects final : slm::capi::Handle {
  static constexpr std::string_view kKind = "objects";
  slm_objects() : Handle(kKind) {}
  slm::evidence::MemoryObjects held;
};

namespace {

using slm::ErrorCode;
using slm::Fail;
using slm::MakeError;
using slm::Result;
using slm::Status;
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

constexpr uint64_t kMaxProblems = 1000;  // in one answer

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
  const bool has_text_module = build.metadata.Find("text_module_sha256") != nullptr;
  out.Key("text_module");
  if (has_text_module)
    out.String(slm::ToHex(HashOf(build, "text_module_sha256")));
  else
    out.Raw("null");
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
  if (!Knows(*context, objects)) return Refuse(context, UnknownHandle("objects"));
  context->result.clear();
  Result<std::string> text = answer(*objects, request);
  if (!text) return Refuse(context, text.error());
  context->result = *std::move(text);
  return 0;
}

}  // namespace

extern "C" {

SLM_EXPORT(slm_objects_new) int32_t slm_objects_new(slm_context* context, slm_objects** out) {
  if (context == nullptr) return kNullContext;
  context->result.clear();
  *out = Keep(context, std::make_unique<slm_objects>());
  return 0;
}

SLM_EXPORT(slm_objects_free) void slm_objects_free(slm_context* context, slm_objects* objects) {
  if (context != nullptr) Drop(context, objects);
}

SLM_EXPORT(slm_objects_add)
int32_t slm_objects_add(slm_context* context, slm_objects* objects, uint32_t kind, const uint8_t* data,
                        size_t size) {
  if (context == nullptr) return kNullContext;
  return AnswerWith(context, [&](Writer& out) -> RecordStatus {
    if (!Knows(*context, objects)) return Fail(UnknownHandle("objects"));
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
    if (!Knows(*context, objects)) return Fail(UnknownHandle("objects"));
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
  if (!Knows(*context, objects)) return Refuse(context, UnknownHandle("objects"));
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
  if (!Knows(*context, objects)) return Refuse(context, UnknownHandle("objects"));
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

SLM_EXPORT(slm_template_convert)
int32_t slm_template_convert(slm_context* context, const uint8_t* source, size_t size) {
  if (context == nullptr) return kNullContext;
  context->result.clear();
  const std::string_view text = TextAt(source, size);
  const auto converted = slm::chat::Template::Compile(text);
  if (!converted)
    return Refuse(context, converted.error(), slm::records::PlaceIn(text, converted.error(), "convert"));
  context->result = slm::AsText(converted->Serialize());
  return 0;
}

}  // extern "C"
