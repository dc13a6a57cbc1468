// slm render MODEL [CONTEXT.json] [--explain] [--batch]
#include "apps/slm/commands.h"
#include "apps/slm/models.h"
#include "base/utf8.h"
#include "chat/analysis.h"
#include "chat/template.h"

namespace slm::app {
namespace {

constexpr uint64_t kMaxContextBytes = 64u << 20;

struct RenderArgs {
  std::string model;
  std::string context = "-";
  bool explain = false;
  bool batch = false;
};

void WriteRendered(const chat::Rendered& rendered, json::Writer& out) {
  out.Key("text").String(rendered.text);
  out.Key("spans").BeginArray();
  for (const chat::Span& span : rendered.spans) {
    out.BeginObject().Key("begin").Uint(span.begin).Key("end").Uint(span.end);
    out.Key("owner").String(span.owner).EndObject();
  }
  out.EndArray();
  out.Key("insertion_ownership").BeginObject();
  out.Key("bos").String(rendered.ownership.bos).Key("eos").String(rendered.ownership.eos);
  out.Key("turn_separator").String(rendered.ownership.turn_separator);
  out.Key("generation_prefix").String(rendered.ownership.generation_prefix).EndObject();
}

// One batch record: its context, perhaps a template and a clock of its own. Errors carry the stage.
Status RenderRecord(const TemplateModel& model, const json::Value& record, json::Writer& out) {
  const auto context = record.Find("context");
  if (!context) return Fail(MakeError(ErrorCode::kTplInput, "a record needs \"context\"").Field("context"));
  chat::RenderOptions options{model.special_tokens, ""};
  if (const auto clock = record.Find("clock"); clock && clock->is_string()) options.clock = clock->string();
  const auto with_stage = [&out](const Error& error, std::string_view stage) {
    out.Key("error").BeginObject().Key("code").String(error.CodeText());
    out.Key("number").Uint(static_cast<uint64_t>(error.code)).Key("stage").String(stage);
    if (error.byte_offset) out.Key("byte_offset").Uint(*error.byte_offset);
    out.Key("message").String(EscapeForDisplay(error.message)).EndObject();
    return Status();
  };
  Result<chat::Template> compiled = Fail(ErrorCode::kTplMissing, "no template");
  if (const auto source = record.Find("template")) {
    if (!source->is_string())
      return Fail(MakeError(ErrorCode::kTplInput, "\"template\" is not text").Field("template"));
    compiled = chat::Template::Compile(source->string());
  } else {
    compiled = model.Compile();
  }
  if (!compiled) return with_stage(compiled.error(), "convert");
  const auto rendered = compiled->Render(*context, options);
  if (!rendered) return with_stage(rendered.error(), "render");
  WriteRendered(*rendered, out);
  return {};
}

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

Status RenderOne(AppContext& app, const RenderArgs& args, const TemplateModel& model) {
  SLM_ASSIGN(const chat::Template compiled, model.Compile());
  SLM_ASSIGN(std::string text, ReadTextFile(args.context, kMaxContextBytes));
  auto document = json::Parse(std::move(text));
  if (!document) return Fail(Error(document.error()).In(args.context));
  const auto rendered = compiled.Render(document->root(), chat::RenderOptions{model.special_tokens, ""});
  if (!rendered) return Fail(Error(rendered.error()).In(args.context));
  if (app.json) {
    json::Writer out;
    out.BeginObject();
    WriteRendered(*rendered, out);
    if (args.explain) out.Key("analysis").Raw(chat::AnalysisJson(chat::Analyze(compiled)));
    out.EndObject();
    app.Print(out.Take() + "\n");
  } else {
    app.Print(args.explain ? Explain(*rendered, compiled.program(), chat::Analyze(compiled))
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
  command.Example(
      "Example:\n  echo "
      "'{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"add_generation_prompt\":true}' |"
      " slm render models/slm-demo --explain\n"
      "Bounds: context 64 MiB; 4,000,000 steps, 16 MiB of output, 192 MiB of values; linear time.");
  command.Run([args, &context] {
    const auto model = OpenTemplateModel(args->model);
    if (!model) return context.Report(model.error());
    if (args->batch) {
      RunBatch(context, [&](const json::Value& record, json::Writer& out) {
        return RenderRecord(*model, record, out);
      });
      return;
    }
    if (const Status status = RenderOne(context, *args, *model); !status) context.Report(status.error());
  });
}

}  // namespace slm::app
