// slm acquire: a source directory into the store.
#include <algorithm>
#include <memory>

#include "acquire/acquisition.h"
#include "apps/slm/chain.h"
#include "apps/slm/commands.h"
#include "base/bytes.h"
#include "base/utf8.h"

namespace slm::app {
namespace {

struct AcquireArgs {
  std::string directory;
  std::string name = "unnamed";
  std::string revision = "unstated";
  std::string profile;
  std::vector<std::string> decisions;
  std::vector<std::string> accepted;
};

void WriteJson(const acquire::Acquisition& acquisition, json::Writer& out) {
  const auto hashes = [&out](std::string_view key, const std::vector<Hash256>& ids) {
    out.Key(key).BeginArray();
    for (const Hash256& id : ids) out.String(ToHex(id));
    out.EndArray();
  };
  const auto texts = [&out](std::string_view key, const std::vector<std::string>& values) {
    out.Key(key).BeginArray();
    for (const std::string& value : values) out.String(value);
    out.EndArray();
  };
  out.BeginObject();
  out.Key("acquisition").String(ToHex(acquisition.id));
  out.Key("name").String(acquisition.name);
  out.Key("revision").String(acquisition.revision);
  out.Key("source_tree").String(ToHex(acquisition.tree));
  out.Key("license").BeginObject();
  out.Key("spdx").String(acquisition.spdx);
  out.Key("redistribution").String(acquisition.redistribution);
  out.Key("node").String(ToHex(acquisition.license));
  out.EndObject();
  out.Key("files").BeginArray();
  for (const acquire::SourceFile& file : acquisition.files) {
    out.BeginObject();
    out.Key("path").String(file.path);
    out.Key("kind").String(file.kind);
    out.Key("size").Uint(file.size);
    out.Key("sha256").String(ToHex(file.blob));
    out.Key("node").String(ToHex(file.node));
    out.EndObject();
  }
  out.EndArray();
  texts("weights", acquisition.weights);
  hashes("conflicts", acquisition.conflicts);
  hashes("decisions", acquisition.decisions);
  out.Key("choices").BeginArray();
  for (const acquire::ConflictChoice& choice : acquisition.choices) {
    out.BeginObject();
    out.Key("code").String(choice.code);
    out.Key("field").String(choice.field);
    out.Key("ref").String(choice.ref);
    out.Key("conflict").String(ToHex(choice.conflict));
    out.EndObject();
  }
  out.EndArray();
  texts("flags", acquisition.flags);
  texts("ignored", acquisition.ignored);
  out.Key("ignored_metadata").BeginArray();
  for (const acquire::IgnoredKey& ignored : acquisition.ignored_metadata) {
    out.BeginObject();
    out.Key("file").String(ignored.file);
    out.Key("key").String(ignored.key);
    out.Key("value").String(ignored.value);
    out.Key("reason").String(ignored.reason);
    out.EndObject();
  }
  out.EndArray();
  out.EndObject();
}

std::string Padded(std::string_view text, size_t width, bool to_the_right) {
  const std::string blanks(text.size() < width ? width - text.size() : 0, ' ');
  return to_the_right ? blanks + std::string(text) : std::string(text) + blanks;
}

std::string HumanText(const acquire::Acquisition& acquisition) {
  size_t path_width = 4;
  size_t size_width = 5;
  for (const acquire::SourceFile& file : acquisition.files) {
    path_width = std::max(path_width, EscapeForDisplay(file.path).size());
    size_width = std::max(size_width, std::to_string(file.size).size());
  }
  std::string text = "acquisition " + ToHex(acquisition.id) + "\n";
  text += "source      " + EscapeForDisplay(acquisition.name) + " at " +
          EscapeForDisplay(acquisition.revision) + " (as the caller says; only the bytes are proved)\n";
  text += "license     " + acquisition.spdx + ", redistribution " + acquisition.redistribution + "\n\n";
  text += Padded("file", path_width, false) + "  " + Padded("bytes", size_width, true) + "  sha256\n";
  for (const acquire::SourceFile& file : acquisition.files) {
    text += Padded(EscapeForDisplay(file.path), path_width, false) + "  " +
            Padded(std::to_string(file.size), size_width, true) + "  " + ToHex(file.blob).substr(0, 16) +
            "\n";
  }
  const auto list = [&text](std::string_view title, const std::vector<std::string>& lines) {
    if (!lines.empty()) text += "\n";
    for (const std::string& line : lines) text += std::string(title) + " " + line + "\n";
  };
  std::vector<std::string> choices;
  for (const acquire::ConflictChoice& choice : acquisition.choices) {
    choices.push_back(choice.code + " " + EscapeForDisplay(choice.field) + ": " +
                      EscapeForDisplay(choice.ref) + " holds");
  }
  list("decided    ", choices);
  list("flag       ", acquisition.flags);
  list("left out   ", acquisition.ignored);
  return text;
}

void RunAcquire(const AcquireArgs& args, AppContext& context) {
  if (const Status status = CheckSource(args.directory); !status) return context.Report(status.error());
  if (!IsDirectory(args.directory)) {
    return context.Report(
        MakeError(ErrorCode::kNotFound, "no such directory; a source is taken from a directory")
            .In(args.directory));
  }
  auto store = Store::Open(context.store);
  if (!store) return context.Report(store.error());
  acquire::DirectoryRequest request;
  request.directory = args.directory;
  request.store_directory = context.store;
  request.name = args.name;
  request.revision = args.revision;
  request.profile_path = args.profile;
  request.decision_paths = args.decisions;
  request.accept_conflict_paths = args.accepted;
  auto bar = std::make_unique<ProgressBar>("acquire");
  request.on_progress = [&bar](acquire::Progress progress) {
    bar->Update(progress.bytes_done, progress.bytes_total);
  };
  const auto acquisition = acquire::AcquireDirectory(**store, request);
  bar.reset();  // clears its line before anything is printed
  if (!acquisition) return context.Report(acquisition.error());
  if (!context.json) return context.Print(HumanText(*acquisition));
  json::Writer out(/*indent=*/true);
  WriteJson(*acquisition, out);
  context.Print(out.Take() + "\n");
}

}  // namespace

void RegisterAcquire(Command& root, AppContext& context) {
  auto* args = context.Own<AcquireArgs>();
  Command& command = root.Add("acquire", "Take a source directory into the store and check it");
  command.Option("source", &args->directory, "Directory in the layout of a Hugging Face repository", true);
  command.Option("--name", &args->name, "What the source is called; recorded, not checked");
  command.Option("--revision", &args->revision, "Commit or version of the source; recorded, not checked");
  command.Option("--profile", &args->profile, "Acquisition profile; the built-in one is hf-directory-v2");
  command.Option("--decision", &args->decisions,
                 "Statement of kind license or config-field; may be given several times");
  command.Option("--accept-conflict", &args->accepted,
                 "Statement of kind accept-conflict; may be given several times");
  command.Help(
      {.examples = {"slm acquire ./SmolLM2-135M-Instruct --name HuggingFaceTB/SmolLM2-135M-Instruct "
                    "--revision 7e27bd9"},
       .input =
           "profile hf-directory-v2: 512 files, 8 GiB a file, 16 GiB in all, 6 folders deep; JSON and text "
           "files to 64 MiB. Links, code, pickles, archives and unknown files are refused.",
       .memory = "about 20 MiB and the text of the JSON files, whatever the weights' size",
       .time = "one read and one write of every byte",
       .notes = std::string(kStatementForm)});
  command.Run([args, &context] { RunAcquire(*args, context); });
}

}  // namespace slm::app
