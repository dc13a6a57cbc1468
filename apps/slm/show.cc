// slm show ID [--depth N]
#include "apps/slm/commands.h"
#include "base/utf8.h"
#include "codec/cbor.h"
#include "store/store.h"

namespace slm::app {
namespace {

constexpr size_t kAbbreviatedDigits = 12;
constexpr size_t kMaxShownText = 100;
constexpr size_t kMaxShownElements = 8;
constexpr uint64_t kMaxDepth = 64;

struct ShowArgs {
  std::string id;
  uint64_t depth = 1;
};

Result<Hash256> Resolve(const Store& store, const std::string& prefix) {
  SLM_ASSIGN(const std::vector<Hash256> found, store.FindByPrefix(prefix));
  if (found.empty() || prefix.empty())
    return Fail(MakeError(ErrorCode::kNotFound, "no node with this id").Field(prefix));
  if (found.size() > 1) {
    return Fail(MakeError(ErrorCode::kNotFound, std::to_string(found.size()) +
                                                    " nodes start with this; give more digits, as in " +
                                                    ToHex(found[0]).substr(0, kAbbreviatedDigits))
                    .Field(prefix));
  }
  return found[0];
}

std::string Abbreviated(const Hash256& id) {
  return ToHex(id).substr(0, kAbbreviatedDigits);
}

// One line for a value; long ones are cut, with their size.
std::string ValueText(const cbor::Value& value) {
  if (const Bytes* bytes = value.AsByteString()) {
    if (bytes->size() <= 32) return "h'" + ToHex(*bytes) + "'";
    return "h'" + ToHex(ByteSpan(*bytes).first(16)) + "...' (" + std::to_string(bytes->size()) + " bytes)";
  }
  if (const std::string* text = value.AsTextString(); text != nullptr && text->size() > kMaxShownText) {
    return "\"" + EscapeForDisplay(std::string_view(*text).substr(0, kMaxShownText)) + "...\" (" +
           std::to_string(text->size()) + " bytes)";
  }
  if (const cbor::Array* array = value.AsArray(); array != nullptr && array->size() > kMaxShownElements) {
    return "array of " + std::to_string(array->size());
  }
  std::string text = EscapeForDisplay(cbor::ToJson(value, false));
  if (text.size() <= 2 * kMaxShownText) return text;
  if (const cbor::Map* map = value.AsMap()) return "map of " + std::to_string(map->size()) + " keys";
  return text.substr(0, 2 * kMaxShownText) + "...";
}

void AppendMetadata(const cbor::Map& map, const std::string& indent, std::string* out) {
  for (const auto& [key, value] : map)
    out->append(indent).append(key).append(": ").append(ValueText(value)).append("\n");
}

// The node and its descendants to the asked depth. Depth bounds the recursion.
void AppendTree(const Store& store, const Hash256& id, const std::string& role, uint64_t depth,
                std::string indent, std::string* out) {
  const auto node = store.GetNode(id);
  out->append(indent);
  if (!role.empty()) out->append(role).append(" -> ");
  out->append(node ? node->type : node.error().CodeText()).append(" ").append(Abbreviated(id)).append("\n");
  if (!node || depth == 0) return;
  indent += "  ";
  AppendMetadata(node->metadata, indent, out);
  for (const Edge& edge : node->edges) AppendTree(store, edge.child, edge.role, depth - 1, indent, out);
}

std::string NodeJson(const Hash256& id, const Node& node) {
  json::Writer out;
  out.BeginObject().Key("id").String(ToHex(id)).Key("type").String(node.type);
  out.Key("metadata").Raw(cbor::ToJson(cbor::Value(node.metadata), false)).Key("edges").BeginArray();
  for (const Edge& edge : node.edges) {
    out.BeginObject().Key("role").String(edge.role).Key("child").String(ToHex(edge.child)).EndObject();
  }
  out.EndArray().EndObject();
  return out.Take() + "\n";
}

Status Show(const ShowArgs& args, const AppContext& context) {
  SLM_ASSIGN(const auto store, Store::Open(context.store, {.create = false, .read_only = true}));
  SLM_ASSIGN(const Hash256 id, Resolve(*store, args.id));
  SLM_ASSIGN(const Node node, store->GetNode(id));
  if (context.json) {
    context.Print(NodeJson(id, node));
    return {};
  }
  std::string text = ToHex(id) + "\n";
  AppendTree(*store, id, "", args.depth, "", &text);
  context.Print(text);
  return {};
}

}  // namespace

void RegisterShow(Command& root, AppContext& context) {
  auto* args = context.Own<ShowArgs>();
  Command& command = root.Add("show", "Prints a node of the store");
  command.Option("ID", &args->id, "Node id, or a prefix that only one node has", true);
  command.Option("--depth", &args->depth, "How many levels to open (default 1)", WholeRange{0, kMaxDepth});
  command.Help({.examples = {"slm show 3f2a"},
                .input = "a node of the store; at most 64 levels",
                .memory = "the nodes that are shown",
                .time = "one read of the log and of the nodes that are shown",
                .notes =
                    "With --json: {\"id\", \"type\", \"metadata\", \"edges\": [{\"role\", \"child\"}]}; byte "
                    "strings as {\"hex\"}."});
  command.Run([args, &context] {
    if (const Status status = Show(*args, context); !status) context.Report(status.error());
  });
}

}  // namespace slm::app
