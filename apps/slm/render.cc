// slm render MODEL [CONTEXT.json] [--explain] [--against OTHER] [--clock TIME] [--batch]
#include <algorithm>
#include <optional>

#include "apps/slm/commands.h"
#include "apps/slm/models.h"
#include "base/escape.h"
#include "base/utf8.h"
#include "chat/analysis.h"
#include "chat/isolated.h"
#include "chat/template.h"
#include "codec/sha256.h"
#include "prompt/data_encoding.h"
#include "prompt/injection.h"
#include "prompt/token_owners.h"
#include "records/render_record.h"

namespace slm::app {
namespace {

constexpr uint64_t kMaxContextBytes = 64u << 20;

using records::PlaceIn;
using records::WriteRendered;

// In a child process: nobody trusts a template's source.
Result<chat::Template> Convert(std::string_view source) {
  return chat::CompileIsolated(source);
}

struct RenderArgs {
  std::string model;
  std::string context = "-";
  std::string tokenizer;
  std::string against;
  std::string clock;
  bool explain = false;
  bool injection = false;
  bool batch = false;
};

// The tokenizer beside the template, if there is one.
Result<std::shared_ptr<const tokenizer::Tokenizer>> TokenizerOf(const AppContext& app,
                                                                const RenderArgs& args) {
  if (!args.tokenizer.empty()) return OpenTokenizer({args.tokenizer, app.store});
  std::shared_ptr<const tokenizer::Tokenizer> none;
  const ModelName model{args.model, app.store};
  if (!MayHoldTokenizer(model)) return none;
  auto opened = OpenTokenizer(model);
  if (!opened && (opened.error().code == ErrorCode::kNotFound || opened.error().code == ErrorCode::kIo))
    return none;
  return opened;
}

// What --explain says beside the rendering.
struct Explanation {
  chat::Analysis analysis;
  std::optional<prompt::DataPrompt> data;
  std::optional<prompt::TokenOwners> owners;
};

Result<Explanation> ExplainRendering(const AppContext& app, const RenderArgs& args,
                                     const TemplateModel& model, const chat::Template& compiled,
                                     const chat::Rendered& rendered) {
  Explanation explanation{chat::Analyze(compiled), {}, {}};
  SLM_ASSIGN(const auto tokenizer, TokenizerOf(app, args));
  if (tokenizer == nullptr) return explanation;
  SLM_ASSIGN(explanation.data, prompt::EncodeAsData(*tokenizer, rendered));
  explanation.owners = prompt::OwnersOf(*tokenizer, model.special_tokens, {rendered.text, rendered.Spans()});
  return explanation;
}

Hash256 DigestOf(const chat::Program& program) {
  return Sha256Of(chat::SerializeProgram(program));
}

void WriteExplanation(const Explanation& explanation, const chat::Program& program, json::Writer& out) {
  out.Key("program").BeginObject().Key("version").Uint(program.version);
  out.Key("sha256").String(ToHex(DigestOf(program)));
  out.Key("source_sha256").String(ToHex(program.source_sha256)).EndObject();
  out.Key("content_predicates").BeginArray();
  for (const chat::ContentPredicate& predicate : program.content_predicates) {
    out.BeginObject().Key("construct").String(predicate.construct).Key("literal").String(predicate.literal);
    out.Key("subject").String(predicate.subject).Key("line").Uint(predicate.place.line);
    out.Key("column").Uint(predicate.place.column).EndObject();
  }
  out.EndArray().Key("analysis").Raw(chat::AnalysisJson(explanation.analysis));
  if (!explanation.data) return;
  const prompt::DataPrompt& data = *explanation.data;
  out.Key("special_tokens");
  prompt::WriteTokenOwners(*explanation.owners, out);
  out.Key("content_as_data").BeginObject();
  const auto ids = [&out](const char* name, const std::vector<uint32_t>& values) {
    out.Key(name).BeginArray();
    for (const uint32_t id : values) out.Uint(id);
    out.EndArray();
  };
  ids("ids", data.ids);
  ids("reference_ids", data.reference_ids);
  out.Key("seams").Uint(data.parts.empty() ? 0 : data.parts.size() - 1).Key("changed_seams").BeginArray();
  for (const uint64_t at : data.changed_seams) out.Uint(at);
  out.EndArray().Key("markers_in_content").Uint(data.n_markers_in_content).EndObject();
}

// The spans, and of the template's the generation prefix told apart.
std::vector<chat::Span> SpansWithPrefix(const chat::Rendered& rendered) {
  std::vector<chat::Span> spans;
  const chat::GenerationPrefix prefix = rendered.generation_prefix.value_or(chat::GenerationPrefix{});
  for (const chat::Span& span : rendered.Spans()) {
    const uint64_t begin = std::clamp(prefix.begin, span.begin, span.end);
    const uint64_t end = std::clamp(prefix.end, span.begin, span.end);
    if (!prompt::IsTemplateOwner(span.owner) || begin >= end) {
      spans.push_back(span);
      continue;
    }
    if (span.begin < begin) spans.push_back({span.begin, begin, span.owner});
    spans.push_back({begin, end, "generation prefix"});
    if (end < span.end) spans.push_back({end, span.end, span.owner});
  }
  return spans;
}

// Template and content told apart, for a person: each span on its own line with its owner.
std::string Explain(const chat::Rendered& rendered, const chat::Program& program,
                    const Explanation& explanation) {
  std::string text;
  for (const chat::Span& span : SpansWithPrefix(rendered)) {
    std::string owner = EscapeLine(span.owner);
    owner.resize(std::max<size_t>(owner.size(), 28), ' ');
    text += owner + " |" + EscapeForDisplay(rendered.text.substr(span.begin, span.end - span.begin)) + "|\n";
  }
  text += "\nBOS: " + rendered.ownership.bos + "   EOS: " + rendered.ownership.eos +
          "   separators: " + rendered.ownership.turn_separator +
          "   generation prefix: " + rendered.ownership.generation_prefix + "\ninputs:";
  for (const chat::InputSpec& input : program.inputs) text += " " + EscapeLine(input.name);
  text += "\nprogram: version " + std::to_string(program.version) + ", sha256 " + ToHex(DigestOf(program)) +
          ", of a source with sha256 " + ToHex(program.source_sha256) + "\n";
  for (const chat::ContentPredicate& predicate : program.content_predicates) {
    text += "content decides: " + predicate.construct + " \"" + EscapeForDisplay(predicate.literal) +
            "\" of " + EscapeForDisplay(predicate.subject) + " (line " +
            std::to_string(predicate.place.line) + ", column " + std::to_string(predicate.place.column) +
            ")\n";
  }
  if (explanation.data) {
    const prompt::DataPrompt& data = *explanation.data;
    text += prompt::TokenOwnersText(*explanation.owners);
    text += "content as data: " + std::to_string(data.ids.size()) + " ids, the reference " +
            std::to_string(data.reference_ids.size()) + "; " + std::to_string(data.changed_seams.size()) +
            " of " + std::to_string(data.parts.empty() ? 0 : data.parts.size() - 1) + " seams differ; " +
            std::to_string(data.n_markers_in_content) + " markers in content\n";
  }
  text += "\n" + chat::AnalysisText(explanation.analysis);
  return text;
}

// A context as it stands in a file, with its name for messages.
struct NamedContext {
  std::string name;
  json::Document document;
};

Result<NamedContext> ReadContext(const RenderArgs& args) {
  std::string name = args.context == "-" ? "standard input" : args.context;
  SLM_ASSIGN(std::string text, ReadTextFile(args.context, kMaxContextBytes));
  auto document = json::Parse(std::move(text));
  if (!document) return Fail(Error(document.error()).In(name));
  return NamedContext{std::move(name), *std::move(document)};
}

std::expected<chat::Template, records::Fault> Compiled(const TemplateModel& model) {
  auto compiled = model.Compile(Convert);
  if (compiled) return *std::move(compiled);
  return std::unexpected(
      records::Fault{compiled.error(), PlaceIn(model.source, compiled.error(), "convert")});
}

std::expected<chat::Rendered, records::Fault> RenderWith(const TemplateModel& model,
                                                         const chat::Template& compiled,
                                                         const NamedContext& context,
                                                         const std::string& clock) {
  const json::Value root = context.document.root();
  if (const Status allowed = model.CheckContext(root); !allowed)
    return std::unexpected(records::Fault{Error(allowed.error()).In(model.name), {}});
  chat::SourcePlace fault;
  auto rendered = compiled.Render(root, chat::RenderOptions{model.special_tokens, clock, &fault});
  if (rendered) return *std::move(rendered);
  // An error with an offset is one of the context, by its bytes.
  return std::unexpected(
      records::Fault{Error(rendered.error()).In(rendered.error().byte_offset ? context.name : model.name),
                     records::PlaceOf(fault, "render")});
}

records::RecordStatus RenderOne(AppContext& app, const RenderArgs& args, const TemplateModel& model) {
  const auto compiled = Compiled(model);
  if (!compiled) return std::unexpected(compiled.error());
  const auto context = ReadContext(args);
  if (!context) return std::unexpected(records::Fault{context.error(), {}});
  const auto rendered = RenderWith(model, *compiled, *context, args.clock);
  if (!rendered) return std::unexpected(rendered.error());
  std::optional<Explanation> explanation;
  if (args.explain) {
    auto explained = ExplainRendering(app, args, model, *compiled, *rendered);
    if (!explained) return std::unexpected(records::Fault{explained.error(), {}});
    explanation = *std::move(explained);
  }
  if (app.json) {
    json::Writer out;
    out.BeginObject();
    WriteRendered(*rendered, out);
    if (explanation) WriteExplanation(*explanation, compiled->program(), out);
    out.EndObject();
    app.Print(out.Take() + "\n");
  } else {
    app.Print(explanation ? Explain(*rendered, compiled->program(), *explanation) : rendered->text);
  }
  return {};
}

// At most so many bytes from `at` on, cut between characters.
std::string Excerpt(std::string_view text, size_t at) {
  constexpr size_t kExcerptBytes = 32;
  const auto is_inside = [text](size_t i) { return (static_cast<uint8_t>(text[i]) & 0xC0U) == 0x80U; };
  while (at > 0 && at < text.size() && is_inside(at)) --at;
  size_t end = std::min(text.size(), at + kExcerptBytes);
  while (end < text.size() && is_inside(end)) ++end;
  return "|" + std::string(text.substr(at, end - at)) + "|";
}

// Two templates on one context: the same bytes, or the first that differs.
records::RecordStatus RenderAgainst(AppContext& app, const RenderArgs& args, const TemplateModel& model) {
  const auto other = OpenTemplateModel({args.against, app.store});
  if (!other) return std::unexpected(records::Fault{other.error(), {}});
  const auto context = ReadContext(args);
  if (!context) return std::unexpected(records::Fault{context.error(), {}});
  std::string texts[2];
  for (const TemplateModel* one : {&model, &*other}) {
    const auto compiled = Compiled(*one);
    if (!compiled) return std::unexpected(compiled.error());
    auto rendered = RenderWith(*one, *compiled, *context, args.clock);
    if (!rendered) return std::unexpected(rendered.error());
    texts[one == &model ? 0 : 1] = std::move(rendered->text);
  }
  if (texts[0] == texts[1]) {
    json::Writer out;
    out.BeginObject().Key("same").Bool(true).Key("bytes").Uint(texts[0].size()).EndObject();
    app.Print(app.json ? out.Take() + "\n" : "the same " + std::to_string(texts[0].size()) + " bytes\n");
    return {};
  }
  const auto differs =
      std::mismatch(texts[0].begin(), texts[0].end(), texts[1].begin(), texts[1].end()).first;
  const auto at = static_cast<size_t>(differs - texts[0].begin());
  return std::unexpected(
      records::Fault{MakeError(ErrorCode::kTplAmbiguous, "the renderings part at byte " + std::to_string(at) +
                                                             ": " + Excerpt(texts[0], at) + " here, " +
                                                             Excerpt(texts[1], at) + " by " + other->name)
                         .In(model.name)
                         .Field("chat_template"),
                     {}});
}

// What text in a conversation can change. Needs no conversation: it makes its own.
records::RecordStatus CheckInjection(AppContext& app, const RenderArgs& args, const TemplateModel& model) {
  const auto compiled = model.Compile(Convert);
  if (!compiled)
    return std::unexpected(
        records::Fault{compiled.error(), PlaceIn(model.source, compiled.error(), "convert")});
  const auto tokenizer = TokenizerOf(app, args);
  if (!tokenizer) return std::unexpected(records::Fault{tokenizer.error(), {}});
  const auto report = prompt::CheckInjection(*compiled, tokenizer->get(), model.special_tokens);
  if (!report) return std::unexpected(records::Fault{report.error(), {}});
  app.Print(app.json ? prompt::InjectionJson(*report) + "\n" : prompt::InjectionText(*report));
  return {};
}

}  // namespace

void RegisterRender(Command& root, AppContext& context) {
  auto* args = context.Own<RenderArgs>();
  Command& command = root.Add("render", "Render a chat template; say who owns which byte");
  command.Option("model", &args->model,
                 "Source directory, .jinja, .slm or .gguf file, or id of an acquisition",
                 /*required=*/true);
  command.Option("context", &args->context,
                 "JSON file with messages and other inputs (default: standard input)");
  command.Flag("--explain", &args->explain,
               "Each span with its owner; inputs; branches on content; what the template declares");
  command.Flag(
      "--injection", &args->injection,
      "What text in a conversation can change: each field with each token, marker and branch literal");
  command.Option("--tokenizer", &args->tokenizer,
                 "tokenizer.json for --explain and --injection (default: the model's own)");
  command.Option("--against", &args->against,
                 "Another template (also a .gguf file) on the same context: the first byte that differs");
  command.Option("--clock", &args->clock,
                 "Civil time such as 2026-11-30T12:00:00, for templates that ask for the date");
  command.Flag("--batch", &args->batch, "JSON Lines in, JSON Lines out");
  command.Excludes("--batch", {"context", "--explain", "--injection", "--tokenizer", "--against", "--clock"});
  command.Excludes("--injection", {"context", "--explain", "--against", "--clock"});
  command.Excludes("--against", {"--explain"});
  command.Help({.examples = {"echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],"
                             "\"add_generation_prompt\":true}' | slm render models/slm-demo --explain"},
                .input = "context of 64 MiB, template of 64 MiB",
                .memory = "16 MiB of output, 192 MiB of values",
                .time = "linear; at most 4,000,000 steps of the template"});
  command.Run([args, &context] {
    const auto model = OpenTemplateModel({args->model, context.store});
    if (!model) return context.Report(model.error());
    if (args->batch) {
      records::TemplateCache templates(*model, Convert);
      RunBatch(context, [&](const json::Value& record, json::Writer& out) {
        return records::RenderRecord(templates, record, out);
      });
      return;
    }
    const auto run = args->injection ? CheckInjection : !args->against.empty() ? RenderAgainst : RenderOne;
    if (const auto done = run(context, *args, *model); !done)
      context.Report(done.error().error, done.error().place);
  });
}

}  // namespace slm::app
