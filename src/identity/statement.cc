#include "identity/statement.h"

#include <algorithm>
#include <array>

#include "codec/json.h"
#include "codec/sha256.h"

namespace slm {
namespace {

constexpr size_t kMaxTextBytes = 4096;
constexpr size_t kMaxHashes = 256;
constexpr std::string_view kSchema = "slm.decision.v1";
constexpr std::array<std::string_view, 6> kKinds = {"accept-conflict", "config-field", "deviation",
                                                    "license",         "template",     "tokenizer"};
constexpr std::array<std::string_view, 6> kKeys = {"schema", "kind",       "reviewer",
                                                   "reason", "applies_to", "choice"};

std::unexpected<Error> Bad(uint64_t at, std::string_view field, std::string message) {
  return Fail(MakeError(ErrorCode::kDecisionBad, std::move(message)).At(at).Field(field));
}

Result<std::string> RequiredText(json::Value root, std::string_view key) {
  const auto value = root.Find(key);
  if (!value) return Bad(root.byte_offset(), key, "the statement lacks " + std::string(key));
  if (!value->is_string()) return Bad(value->byte_offset(), key, std::string(key) + " must be a text");
  const std::string_view text = value->string();
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos || text.size() > kMaxTextBytes) {
    return Bad(
        value->byte_offset(), key,
        std::string(key) + " must say something, in at most " + std::to_string(kMaxTextBytes) + " bytes");
  }
  return std::string(text);
}

Status ReadAppliesTo(json::Value root, Decision* decision) {
  const auto list = root.Find("applies_to");
  if (!list) return Bad(root.byte_offset(), "applies_to", "the statement lacks applies_to");
  if (!list->is_array() || list->size() == 0 || list->size() > kMaxHashes) {
    return Bad(list->byte_offset(), "applies_to", "applies_to is a list of 1 to 256 hashes");
  }
  for (json::Value item : list->children()) {
    Hash256 hash{};
    if (!item.is_string() || !HashFromHex(item.string(), &hash)) {
      return Bad(item.byte_offset(), "applies_to", "a hash has 64 lower-case hexadecimal digits");
    }
    if (decision->AppliesTo(hash)) return Bad(item.byte_offset(), "applies_to", "the hash stands twice");
    decision->applies_to.push_back(hash);
  }
  return {};
}

bool IsCborKey(std::string_view key) {
  return !key.empty() && key.size() <= 64 && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// Text, integers, booleans, null, lists and objects of them: what a node's metadata can hold.
Result<cbor::Value> ToCbor(json::Value value) {
  switch (value.kind()) {
    case json::Kind::kNull:
      return cbor::Value();
    case json::Kind::kFalse:
    case json::Kind::kTrue:
      return cbor::Value(value.boolean());
    case json::Kind::kString:
      return cbor::Value(value.string());
    case json::Kind::kNumber:
      if (const auto natural = value.AsUint()) return cbor::Value(*natural);
      if (const auto integer = value.AsInt()) return cbor::Value(*integer);
      return Bad(value.byte_offset(), "choice", "a choice holds no fractions; write the number as a text");
    case json::Kind::kArray: {
      cbor::Array array;
      for (json::Value item : value.children()) {
        SLM_ASSIGN(cbor::Value converted, ToCbor(item));
        array.push_back(std::move(converted));
      }
      return cbor::Value(std::move(array));
    }
    case json::Kind::kObject:
      break;
  }
  cbor::Map map;
  for (json::Value member : value.children()) {
    if (!IsCborKey(member.key())) {
      return Bad(member.key_byte_offset(), "choice", "a key of a choice has 1 to 64 of a-z, 0-9, _");
    }
    SLM_ASSIGN(cbor::Value converted, ToCbor(member));
    map.Set(member.key(), std::move(converted));
  }
  return cbor::Value(std::move(map));
}

Result<Decision> ReadStatement(json::Value root) {
  if (!root.is_object()) return Bad(root.byte_offset(), "", "a statement is a JSON object");
  for (json::Value member : root.children()) {
    if (std::find(kKeys.begin(), kKeys.end(), member.key()) == kKeys.end()) {
      return Bad(member.key_byte_offset(), member.key(), "a statement has no such key");
    }
  }
  Decision decision;
  SLM_ASSIGN(const std::string schema, RequiredText(root, "schema"));
  if (schema != kSchema) {
    return Bad(root.Find("schema")->byte_offset(), "schema", "the schema must be " + std::string(kSchema));
  }
  SLM_ASSIGN(decision.kind, RequiredText(root, "kind"));
  if (std::find(kKinds.begin(), kKinds.end(), decision.kind) == kKinds.end()) {
    std::string known;
    for (std::string_view kind : kKinds) known += (known.empty() ? "" : ", ") + std::string(kind);
    return Bad(root.Find("kind")->byte_offset(), "kind", "unknown kind of decision; known are " + known);
  }
  SLM_ASSIGN(decision.reviewer, RequiredText(root, "reviewer"));
  SLM_ASSIGN(decision.reason, RequiredText(root, "reason"));
  SLM_TRY(ReadAppliesTo(root, &decision));
  if (const auto choice = root.Find("choice")) {
    SLM_ASSIGN(decision.choice, ToCbor(*choice));
  }
  return decision;
}

}  // namespace

bool Decision::AppliesTo(const Hash256& hash) const {
  return std::find(applies_to.begin(), applies_to.end(), hash) != applies_to.end();
}

std::string Decision::ChoiceText() const {
  const std::string* text = choice.AsTextString();
  return text == nullptr ? std::string() : *text;
}

std::span<const std::string_view> DecisionKinds() {
  return kKinds;
}

Result<Decision> ParseDecision(ByteSpan text, const std::string& display_path) {
  json::Limits limits;
  limits.max_bytes = kMaxStatementBytes;
  limits.max_depth = 8;
  auto document = json::Parse(std::string(AsText(text)), limits);
  if (!document) return Fail(std::move(document).error().In(display_path));
  auto decision = ReadStatement(document->root());
  if (!decision) return Fail(std::move(decision).error().In(display_path));
  decision->statement.assign(text.begin(), text.end());
  decision->statement_hash = Sha256Of(text);
  decision->path = display_path;
  return decision;
}

Node DecisionNode(const Decision& decision, std::vector<Edge> extra_edges) {
  cbor::Array applies_to;
  std::vector<Hash256> sorted = decision.applies_to;
  std::sort(sorted.begin(), sorted.end());
  for (const Hash256& hash : sorted) applies_to.emplace_back(hash);
  Node node;
  node.type = "decision";
  node.metadata = cbor::Map{{"schema", kSchema},
                            {"kind", decision.kind},
                            {"reviewer", decision.reviewer},
                            {"reason", decision.reason},
                            {"applies_to", std::move(applies_to)},
                            {"choice", decision.choice},
                            {"statement", decision.statement_hash}};
  node.edges = std::move(extra_edges);
  return node;
}

Status CheckDecisionNode(const Node& node, ByteSpan statement) {
  SLM_ASSIGN(const Decision decision, ParseDecision(statement, "the statement of a decision"));
  const auto differs = [](std::string_view key) -> std::unexpected<Error> {
    return Fail(
        MakeError(ErrorCode::kDecisionBad, "the decision says something else than its statement").Field(key));
  };
  if (const auto key = FirstDifferentKey(DecisionNode(decision), node)) return differs(*key);
  for (const Edge& edge : node.edges) {
    if (!decision.AppliesTo(edge.child)) return differs(edge.role);
  }
  return {};
}

}  // namespace slm
