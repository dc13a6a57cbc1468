// slm log [--limit N]
#include <algorithm>

#include "apps/slm/commands.h"
#include "base/utf8.h"
#include "store/store.h"

namespace slm::app {
namespace {

struct LogArgs {
  uint64_t limit = 0;
};

// Type of a node, for people; an unreadable node does not hide its record.
std::string TypeOf(const Store& store, const Hash256& id) {
  const auto node = store.GetNode(id);
  return node ? node->type : "(" + node.error().CodeText() + ")";
}

std::string LogJson(const Store& store, std::span<const LogRecord> records) {
  json::Writer out(true);
  out.BeginObject().Key("records").BeginArray();
  for (const LogRecord& record : records) {
    out.BeginObject().Key("seq").Uint(record.seq).Key("kind").String(record.kind);
    out.Key("byte_offset").Uint(record.byte_offset).Key("nodes").BeginArray();
    for (const Hash256& id : record.nodes) {
      out.BeginObject().Key("id").String(ToHex(id)).Key("type").String(TypeOf(store, id)).EndObject();
    }
    out.EndArray().EndObject();
  }
  out.EndArray().EndObject();
  return out.Take() + "\n";
}

std::string LogText(const Store& store, std::span<const LogRecord> records) {
  std::string text;
  for (const LogRecord& record : records) {
    text.append(std::to_string(record.seq)).append("  ").append(EscapeForDisplay(record.kind)).append("\n");
    for (const Hash256& id : record.nodes) {
      text.append("    ").append(ToHex(id)).append("  ").append(TypeOf(store, id)).append("\n");
    }
  }
  return text.empty() ? "the log is empty\n" : text;
}

Status PrintLog(const LogArgs& args, const AppContext& context) {
  SLM_ASSIGN(const auto store, Store::Open(context.store, {.create = false, .read_only = true}));
  SLM_ASSIGN(const std::vector<LogRecord> log, store->ReadLog());
  std::span<const LogRecord> records = log;
  if (args.limit > 0) records = records.last(static_cast<size_t>(std::min<uint64_t>(args.limit, log.size())));
  context.Print(context.json ? LogJson(*store, records) : LogText(*store, records));
  return {};
}

}  // namespace

void RegisterLog(Command& root, AppContext& context) {
  auto* args = context.Own<LogArgs>();
  Command& command = root.Add("log", "Prints the store's log, oldest record first");
  command.Option("--limit", &args->limit, "Only the last N records (default, and 0: all)");
  command.Help({.examples = {"slm log --limit 5"},
                .input = "at most 1 GiB of log",
                .memory = "the log and one of its nodes",
                .time = "one read of the log and of the nodes that it names"});
  command.Run([args, &context] {
    if (const Status status = PrintLog(*args, context); !status) context.Report(status.error());
  });
}

}  // namespace slm::app
