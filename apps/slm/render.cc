// slm render MODEL [CONTEXT.json] [--explain] [--batch]
#include <algorithm>
#include <optional>

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

// Where an error of a template's own text stands.
ErrorPlace PlaceIn(std::string_view source, const Error& error, std::string_view stage) {
  ErrorPlace place{.stage = stage};
  if (!error.byte_offset || source.empty()) return place;
  const std::string_view before = source.substr(0, std::min<uint64_t>(*error.byte_offset, source.size()));
  place.line = 1 + static_cast<uint64_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t line_begin = before.rfind('\n') + 1;  // 0 where there is none: npos + 1
  const std::string_view in_line = before.substr(line_begin);
  // Bytes that do not continue a character; the text may be ill-formed.
  place.column = 1 + static_cast<uint64_t>(std::count_if(in_line.begin(), in_line.end(), [](char byte) {
                   return (static_cast<uint8_t>(byte) & 0xC0U) != 0x80U;
                 }));
  return place;
}

struct RenderInput {
  json::Value context;
  std::string clock;
  std::optional<std::string_view> source;  // in place of the model's template
};

Result<RenderInput> ReadRecord(const json::Value& record) {
  SLM_TRY(OnlyMembers(record, {"id", "context", "template", "clock"}));
  const auto bad = [](const json::Value& value, std::string_view what) {
    return Fail(MakeError(ErrorCode::kTplInput, std::string(value.key()) + " is " + std::string(what))
                    .At(value.byte_offset())
                    .Field(value.key()));
  };
  RenderInput input;
  const auto context = record.Find("context");
  if (!context)
    return Fail(MakeError(ErrorCode::kTplInput, "a record needs \"context\"").At(0).Field("context"));
  input.context = *context;
  if (const auto clock = record.Find("clock")) {
    if (!clock->is_string()) return bad(*clock, "a text such as 2026-11-30T12:00:00");
    input.clock = clock->string();
  }
  if (const auto source = record.Find("template")) {
    if (!source->is_string()) return bad(*source, "the template's text");
    input.source = source->string();
  }
  return input;
}

// One batch record. An error of the template carries the stage, and its place in the template.
Status RenderRecord(const TemplateModel& model, const json::Value& record, json::Writer& out) {
  SLM_ASSIGN(const RenderInput input, ReadRecord(record));
  const std::string_view source = input.source.value_or(model.source);
  const auto compiled = input.source ? chat::Template::Compile(*input.source) : model.Compile();
  if (!compiled) {
    WriteError(compiled.error(), out, PlaceIn(source, compiled.error(), "convert"));
    return {};
  }
  if (!input.source) SLM_TRY(model.CheckContext(input.context));
  const auto rendered =
      compiled->Render(input.context, chat::RenderOptions{model.special_tokens, input.clock});
  if (!rendered) {
    WriteError(rendered.error(), out, PlaceIn(source, rendered.error(), "render"));
    return {};
  }
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

// An error and, where the template is at fault, the place in it.
struct RenderFault {
  Error error;
  ErrorPlace place;
};

std::expected<void, RenderFault> RenderOne(AppContext& app, const RenderArgs& args,
                                           const TemplateModel& model) {
  const auto compiled = model.Compile();
  if (!compiled)
    return std::unexpected(RenderFault{compiled.error(), PlaceIn(model.source, compiled.error(), "convert")});
  auto text = ReadTextFile(args.context, kMaxContextBytes);
  if (!text) return std::unexpected(RenderFault{text.error(), {}});
  const std::string name = args.context == "-" ? "standard input" : args.context;
  const auto document = json::Parse(*std::move(text));
  if (!document) return std::unexpected(RenderFault{Error(document.error()).In(name), {}});
  if (const Status allowed = model.CheckContext(document->root()); !allowed)
    return std::unexpected(RenderFault{Error(allowed.error()).In(model.name), {}});
  const auto rendered = compiled->Render(document->root(), chat::RenderOptions{model.special_tokens, ""});
  if (!rendered) {
    return std::unexpected(
        RenderFault{Error(rendered.error()).In(rendered.error().byte_offset ? model.name : name),
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
        return RenderRecord(*model, record, out);
      });
      return;
    }
    if (const auto done = RenderOne(context, *args, *model); !done)
      context.Report(done.error().error, done.error().place);
  });
}

}  // namespace slm::app
