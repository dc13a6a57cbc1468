// slm render MODEL [CONTEXT.json] [--explain] [--batch]
#include <algorithm>
#include <optional>

#include "apps/slm/commands.h"
#include "apps/slm/models.h"
#include "base/utf8.h"
#include "chat/analysis.h"
#include "chat/template.h"
#include "records/render_record.h"

namespace slm::app {
namespace {

constexpr uint64_t kMaxContextBytes = 64u << 20;

using records::PlaceIn;
using records::WriteRendered;

struct RenderArgs {
  std::string model;
  std::string context = "-";
  bool explain = false;
  bool batch = false;
};

// Template and content told apart, for a person: each span on its own line with its owner.
std::string Explain(const chat::Rendered& rendered, const chat::Program& program,
                    const chat::Analysis& analysis) {
  std::string text;
  for (const chat::Span& span : rendered.spans) {
    std::string owner = span.owner;
    owner.resize(std::max<size_t>(owner.size(), 28), ' ');
    text += owner + " |" + EscapeForDisplay(rendered.text.substr(span.begin, span.end - span.begin)) + "|\n";
  }
  text += "\nBOS: " + rendered.ownership.bos + "   EOS: " + rendered.ownership.eos +
          "   separators: " + rendered.ownership.turn_separator +
          "   generation prefix: " + rendered.ownership.generation_prefix + "\ninputs:";
  for (const chat::InputSpec& input : program.inputs) text += " " + input.name;
  text += "\n";
  for (const chat::ContentPredicate& predicate : program.content_predicates) {
    text += "branches on content: " + predicate.construct + " \"" + EscapeForDisplay(predicate.literal) +
            "\" (line " + std::to_string(predicate.line) + ")\n";
  }
  text += "\n" + chat::AnalysisText(analysis);
  return text;
}

records::RecordStatus RenderOne(AppContext& app, const RenderArgs& args, const TemplateModel& model) {
  const auto compiled = model.Compile();
  if (!compiled)
    return std::unexpected(
        records::Fault{compiled.error(), PlaceIn(model.source, compiled.error(), "convert")});
  auto text = ReadTextFile(args.context, kMaxContextBytes);
  if (!text) return std::unexpected(records::Fault{text.error(), {}});
  const std::string name = args.context == "-" ? "standard input" : args.context;
  const auto document = json::Parse(*std::move(text));
  if (!document) return std::unexpected(records::Fault{Error(document.error()).In(name), {}});
  const auto rendered = compiled->Render(document->root(), chat::RenderOptions{model.special_tokens, ""});
  if (!rendered) {
    return std::unexpected(
        records::Fault{Error(rendered.error()).In(rendered.error().byte_offset ? model.name : name),
                       PlaceIn(model.source, rendered.error(), "render")});
  }
  if (app.json) {
    json::Writer out;
    out.BeginObject();
    WriteRendered(*rendered, out);
    if (args.explain) out.Key("analysis").Raw(chat::AnalysisJson(chat::Analyze(*compiled)));
    out.EndObject();
    app.Print(out.Take() + "\n");
  } else {
    app.Print(args.explain ? Explain(*rendered, compiled->program(), chat::Analyze(*compiled))
                           : rendered->text);
  }
  return {};
}

}  // namespace

void RegisterRender(Command& root, AppContext& context) {
  auto* args = context.Own<RenderArgs>();
  Command& command = root.Add("render", "Render a chat template; say who owns which byte");
  command.Option("model", &args->model, "Source directory, .jinja file, or .slm", /*required=*/true);
  command.Option("context", &args->context,
                 "JSON file with messages and other inputs (default: standard input)");
  command.Flag("--explain", &args->explain,
               "Each span with its owner; inputs; branches on content; what the template declares");
  command.Flag("--batch", &args->batch, "JSON Lines in, JSON Lines out");
  command.Excludes("--batch", {"context", "--explain"});
  command.Help({.examples = {"echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],"
                             "\"add_generation_prompt\":true}' | slm render models/slm-demo --explain"},
                .input = "context of 64 MiB, template of 64 MiB",
                .memory = "16 MiB of output, 192 MiB of values",
                .time = "linear; at most 4,000,000 steps of the template"});
  command.Run([args, &context] {
    const auto model = OpenTemplateModel(args->model);
    if (!model) return context.Report(model.error());
    if (args->batch) {
      RunBatch(context, [&](const json::Value& record, json::Writer& out) {
        return records::RenderRecord(*model, record, out);
      });
      return;
    }
    if (const auto done = RenderOne(context, *args, *model); !done)
      context.Report(done.error().error, done.error().place);
  });
}

}  // namespace slm::app
