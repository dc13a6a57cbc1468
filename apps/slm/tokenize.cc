// slm tokenize MODEL [TEXT] [--explain] [--batch]; slm detokenize MODEL [IDS] [--batch]
#include "apps/slm/commands.h"
#include "apps/slm/models.h"
#include "base/utf8.h"
#include "records/token_record.h"
#include "tokenizer/difference.h"

namespace slm::app {
namespace {

using records::ModeOf;
using records::WriteDecoded;
using records::WriteEncoding;
using records::WriteOffsets;
using tokenizer::EncodeOptions;
using tokenizer::Encoding;
using tokenizer::Tokenizer;
using tokenizer::Trace;

constexpr uint64_t kMaxTextBytes = uint64_t{256} << 20;
constexpr uint64_t kMaxIdsBytes = uint64_t{256} << 20;

struct TokenizeArgs {
  std::string model;
  std::string text = "-";
  bool explain = false;
  bool batch = false;
  bool lenient = false;
  bool no_special = false;
  bool special_as_text = false;
  bool compare = false;
  uint64_t strings = 1'000'000;
};

struct DetokenizeArgs {
  std::string model;
  std::vector<std::string> ids;
  std::string mode = "raw";
  bool batch = false;
  bool lenient = false;
};

std::string Padded(std::string text, size_t width) {
  const size_t n_scalars = CountScalars(text);
  if (n_scalars < width) text.append(width - n_scalars, ' ');
  return text;
}

std::string Range(uint64_t begin, uint64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

// Each stage, so that a person sees why a token is what it is.
std::string Explain(const Trace& trace, const Encoding& encoding) {
  std::string text;
  if (!trace.cuts.empty()) text += "added tokens found in the text\n";
  for (const Trace::Cut& cut : trace.cuts) {
    text += "  " + Padded(Range(cut.begin, cut.end), 16) + Padded(std::to_string(cut.id), 8) + "|" +
            EscapeForDisplay(cut.text) + "|" + (cut.after_normalizer ? "  after the normalizer" : "") + "\n";
  }
  text += "normalized text between them\n";
  for (const Trace::Segment& segment : trace.segments) {
    text +=
        "  " + Padded(Range(segment.begin, segment.end), 16) + "|" + EscapeForDisplay(segment.text) + "|\n";
  }
  text += "pre-tokens and what the model makes of them\n";
  std::vector<std::string> pieces(trace.pre_tokens.size());
  for (const Trace::ModelPiece& piece : trace.model_pieces) {
    pieces[piece.word] += "  " + std::to_string(piece.id) + "=" + EscapeForDisplay(piece.text);
  }
  for (size_t word = 0; word < trace.pre_tokens.size(); ++word) {
    const Trace::PreToken& pre_token = trace.pre_tokens[word];
    text += "  " + Padded(Range(pre_token.begin, pre_token.end), 16) +
            Padded("word " + std::to_string(word), 12) + "|" + EscapeForDisplay(pre_token.text) + "|" +
            (pre_token.is_added_token ? "  added token" : pieces[word]) + "\n";
  }
  text += "ids\n";
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    text +=
        "  " + Padded(std::to_string(encoding.ids[i]), 8) +
        Padded("bytes " + Range(encoding.byte_offsets[i].first, encoding.byte_offsets[i].second), 22) +
        Padded("scalars " + Range(encoding.scalar_offsets[i].first, encoding.scalar_offsets[i].second), 24) +
        Padded(encoding.word_ids[i] == UINT32_MAX ? "-" : "word " + std::to_string(encoding.word_ids[i]),
               12) +
        "|" + EscapeForDisplay(encoding.tokens[i]) + "|" + (encoding.special_mask[i] ? "  put in" : "") +
        "\n";
  }
  return text;
}

// What a vocabulary cannot say against a tokenizer.json, from its profile.
std::string ExplainLosses(const Tokenizer& tokenizer) {
  const auto profile = json::Parse(tokenizer.profile_json());
  const auto losses = profile ? profile->root().Find("losses") : std::nullopt;
  std::string text;
  if (!losses) return text;
  text += "what a file of this kind cannot say, and what is done instead\n";
  for (const json::Value loss : losses->children()) {
    text += "  " + std::string(loss.Find("what")->string()) + ": " +
            std::string(loss.Find("instead")->string()) + "\n";
  }
  return text;
}

// Offsets in UTF-16 code units of the text, from those in bytes.
void WriteUtf16Offsets(std::string_view text, const Encoding& encoding, json::Writer& out) {
  std::vector<uint64_t> units(text.size() + 1, 0);  // before each byte
  uint64_t n = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    units[i] = n;
    const auto byte = static_cast<uint8_t>(text[i]);
    if ((byte & 0xC0) != 0x80) n += byte >= 0xF0 ? 2 : 1;
  }
  units[text.size()] = n;
  std::vector<std::pair<uint64_t, uint64_t>> offsets;
  for (const auto& [begin, end] : encoding.byte_offsets) {
    offsets.emplace_back(units[std::min<uint64_t>(begin, text.size())],
                         units[std::min<uint64_t>(end, text.size())]);
  }
  WriteOffsets("utf16", offsets, out);
}

void WriteTrace(const Trace& trace, const Encoding& encoding, json::Writer& out) {
  const auto range = [&out](uint64_t begin, uint64_t end) {
    out.Key("byte").BeginArray().Uint(begin).Uint(end).EndArray();
  };
  out.Key("added_tokens").BeginArray();
  for (const Trace::Cut& cut : trace.cuts) {
    out.BeginObject().Key("id").Uint(cut.id).Key("text").String(cut.text);
    range(cut.begin, cut.end);
    out.Key("after_normalizer").Bool(cut.after_normalizer).EndObject();
  }
  out.EndArray().Key("normalized").BeginArray();
  for (const Trace::Segment& segment : trace.segments) {
    out.BeginObject().Key("text").String(segment.text);
    range(segment.begin, segment.end);
    WriteOffsets("origin_of_each_byte", segment.origin, out);
    out.EndObject();
  }
  out.EndArray().Key("pre_tokens").BeginArray();
  for (const Trace::PreToken& pre_token : trace.pre_tokens) {
    out.BeginObject().Key("text").String(pre_token.text);
    range(pre_token.begin, pre_token.end);
    out.Key("added").Bool(pre_token.is_added_token).EndObject();
  }
  out.EndArray().Key("model").BeginArray();
  for (const Trace::ModelPiece& piece : trace.model_pieces) {
    out.BeginObject().Key("word").Uint(piece.word).Key("id").Uint(piece.id).Key("text").String(piece.text);
    out.Key("in_pre_token").BeginArray().Uint(piece.begin).Uint(piece.end).EndArray().EndObject();
  }
  out.EndArray().Key("tokens").BeginArray();
  for (const std::string& token : encoding.tokens) out.String(token);
  out.EndArray().Key("words").BeginArray();
  for (const uint32_t word : encoding.word_ids) {
    if (word == UINT32_MAX) {
      out.Null();
    } else {
      out.Uint(word);
    }
  }
  out.EndArray().Key("special").BeginArray();
  for (const bool special : encoding.special_mask) out.Bool(special);
  out.EndArray();
}

Status TokenizeOne(AppContext& context, const TokenizeArgs& args, const Tokenizer& tokenizer) {
  std::string text = args.text;
  if (text == "-") {
    SLM_ASSIGN(text, ReadTextFile("-", kMaxTextBytes));
  }
  EncodeOptions options;
  options.add_special_tokens = !args.no_special;
  options.special_tokens_as_text = args.special_as_text;
  options.token_texts = args.explain;
  Trace trace;
  auto encoding = tokenizer.Encode(text, options, args.explain ? &trace : nullptr);
  if (!encoding) return Fail(std::move(encoding).error().In(args.text == "-" ? "standard input" : "TEXT"));
  if (context.json) {
    json::Writer out;
    out.BeginObject();
    WriteEncoding(*encoding, out);
    if (args.explain) {
      WriteUtf16Offsets(text, *encoding, out);
      WriteTrace(trace, *encoding, out);
    }
    if (args.explain) out.Key("profile").Raw(tokenizer.profile_json());
    context.Print(out.EndObject().Take() + "\n");
    return {};
  }
  if (args.explain) {
    context.Print(Explain(trace, *encoding) + ExplainLosses(tokenizer));
    return {};
  }
  std::string line;
  for (const uint32_t id : encoding->ids) line += (line.empty() ? "" : " ") + std::to_string(id);
  context.Print(line + "\n");
  return {};
}

void WriteIds(std::string_view key, const std::vector<uint32_t>& ids, const std::optional<ErrorCode>& error,
              json::Writer& out) {
  out.Key(key).BeginArray();
  for (const uint32_t id : ids) out.Uint(id);
  out.EndArray();
  if (error) out.Key(std::string(key) + "_refused").String(Info(*error).name);
}

std::string ListOf(const std::vector<uint32_t>& ids, const std::optional<ErrorCode>& error) {
  std::string line;
  for (const uint32_t id : ids) line += " " + std::to_string(id);
  return error ? " refused: " + std::string(Info(*error).name) : line;
}

void WriteDifference(const tokenizer::Difference& found, json::Writer& out) {
  out.Key("found_by").String(found.phase).Key("text").String(found.text);
  WriteIds("first", found.first_ids, found.first_error, out);
  WriteIds("second", found.second_ids, found.second_error, out);
}

void WriteSearched(const tokenizer::DifferenceReport& report, json::Writer& out) {
  out.Key("tried").Uint(report.n_tried).Key("searched").BeginObject();
  for (const auto& [phase, n] : report.searched) out.Key(phase).Uint(n);
  out.EndObject();
}

// Two tokenizers over the corpus, all tokens, all merges and generated strings: the shortest text on
// which they differ, as TOK-CONFLICT.
Status CompareTokenizers(AppContext& context, const TokenizeArgs& args, const Tokenizer& first) {
  SLM_ASSIGN(const auto second, OpenTokenizer({args.text, context.store}, {.lenient = args.lenient}));
  tokenizer::DifferenceOptions options;
  options.n_generated = args.strings;
  options.add_special_tokens = !args.no_special;
  const tokenizer::DifferenceReport report = tokenizer::FindShortestDifference(first, *second, options);
  const auto& found = report.difference;
  if (context.json) {
    json::Writer out;
    out.BeginObject().Key("equal").Bool(!found);
    WriteSearched(report, out);
    if (found) WriteDifference(*found, out);
    context.Print(out.EndObject().Take() + "\n");
  } else if (!found) {
    context.Print("no difference on " + std::to_string(report.n_tried) + " texts\n");
  } else {
    context.Print("shortest text found: |" + EscapeForDisplay(found->text) +
                  "|\n  first: " + ListOf(found->first_ids, found->first_error) + "\n  second:" +
                  ListOf(found->second_ids, found->second_error) + "\n  found by: " + found->phase + "\n");
  }
  if (!found) return {};
  return Fail(MakeError(ErrorCode::kTokConflict,
                        "the two tokenizers give other ids for |" + EscapeForDisplay(found->text) + "|")
                  .In(args.text));
}

std::string Show(const std::string& first, const std::string& second,
                 const tokenizer::DifferenceReport& report) {
  std::string text = first + " and " + second + ": ";
  if (report.differences.empty()) {
    text += "no difference\n";
  } else {
    text += "shortest |" + EscapeForDisplay(report.difference->text) + "|\n";
  }
  for (const tokenizer::Difference& found : report.differences) {
    text += "  " + std::string(NameOf(found.kind)) + ": |" + EscapeForDisplay(found.text) +
            "|\n    first: " + ListOf(found.first_ids, found.first_error) +
            "\n    second:" + ListOf(found.second_ids, found.second_error) + "\n";
  }
  text += "  searched:";
  for (const auto& [phase, n] : report.searched) text += " " + phase + " " + std::to_string(n);
  return text + "; texts given to both: " + std::to_string(report.n_tried) + "\n";
}

// Every vocabulary of a directory with every other, by the stages at which they part.
Status CompareDirectory(AppContext& context, const TokenizeArgs& args) {
  SLM_ASSIGN(const std::vector<std::string> files, VocabulariesIn(args.model));
  if (files.size() < 2) {
    return Fail(
        MakeError(ErrorCode::kNotFound, "the directory holds " + std::to_string(files.size()) +
                                            " of tokenizer.json, *.model and *.gguf; to compare takes two")
            .In(args.model));
  }
  std::vector<std::shared_ptr<const Tokenizer>> tokenizers;
  for (const std::string& file : files) {
    SLM_ASSIGN(auto one, OpenTokenizer({file, context.store}, {.lenient = args.lenient}));
    tokenizers.push_back(std::move(one));
  }
  std::string first_conflict;
  json::Writer out;
  out.BeginObject().Key("pairs").BeginArray();
  for (size_t i = 0; i < files.size(); ++i) {
    for (size_t k = i + 1; k < files.size(); ++k) {
      tokenizer::DifferenceOptions options;
      options.n_generated = args.strings;
      const tokenizer::DifferenceReport report =
          tokenizer::FindDifferences(*tokenizers[i], *tokenizers[k], options);
      if (report.difference && first_conflict.empty()) {
        first_conflict = files[i] + " and " + files[k] + " give other ids for |" +
                         EscapeForDisplay(report.difference->text) + "|";
      }
      if (!context.json) {
        context.Print(Show(files[i], files[k], report));
        continue;
      }
      out.BeginObject().Key("first_file").String(files[i]).Key("second_file").String(files[k]);
      out.Key("equal").Bool(report.differences.empty());
      WriteSearched(report, out);
      if (report.difference) WriteDifference(*report.difference, out);
      out.Key("differences").BeginArray();
      for (const tokenizer::Difference& found : report.differences) {
        out.BeginObject().Key("kind").String(NameOf(found.kind));
        WriteDifference(found, out);
        out.EndObject();
      }
      out.EndArray().EndObject();
    }
  }
  out.EndArray().Key("equal").Bool(first_conflict.empty()).EndObject();
  if (context.json) context.Print(out.Take() + "\n");
  if (first_conflict.empty()) return {};
  return Fail(MakeError(ErrorCode::kTokConflict, first_conflict).In(args.model));
}

// Ids as the arguments give them: numbers, with spaces or commas between them.
Result<std::vector<uint32_t>> ParseIds(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + " ";
  if (words.empty()) {
    SLM_ASSIGN(text, ReadTextFile("-", kMaxIdsBytes));
  }
  return ParseTokenIds(text, words.empty() ? "standard input" : "IDS");
}

Status DetokenizeOne(AppContext& context, const DetokenizeArgs& args, const Tokenizer& tokenizer) {
  auto mode = ModeOf(args.mode);
  if (!mode) return Fail(MakeError(ErrorCode::kUsage, "--" + mode.error().message).Field("--mode"));
  SLM_ASSIGN(const std::vector<uint32_t> ids, ParseIds(args.ids));
  const auto decoded = tokenizer.Decode(ids, *mode);
  if (!decoded) return Fail(Error(decoded.error()).In(args.model).Field("ids"));
  const std::string& bytes = *decoded;
  if (!context.json) {
    context.Print(bytes);
    return {};
  }
  json::Writer out;
  out.BeginObject();
  WriteDecoded(bytes, out);
  context.Print(out.EndObject().Take() + "\n");
  return {};
}

}  // namespace

void RegisterTokenize(Command& root, AppContext& context) {
  auto* args = context.Own<TokenizeArgs>();
  Command& command = root.Add("tokenize", "Token ids and offsets of a text");
  command.Option(
      "model", &args->model,
      "Source directory, tokenizer.json, SentencePiece .model, .gguf, .slm, or id of an acquisition",
      /*required=*/true);
  command.Option("text", &args->text, "The text (default, or -: standard input, all its bytes)");
  command.Flag("--explain", &args->explain, "Every stage: added tokens, normalized text, pre-tokens, model");
  command.Flag("--batch", &args->batch, "JSON Lines in, JSON Lines out");
  command.Flag("--no-special-tokens", &args->no_special,
               "Without the tokens that the post-processor puts in");
  command.Flag("--special-tokens-as-text", &args->special_as_text,
               "Special tokens in the text are plain text");
  command.Flag(
      "--compare", &args->compare,
      "MODEL against a second one, named in place of TEXT: the shortest text on which they differ. A "
      "directory alone: each of its vocabularies (tokenizer.json, *.model, *.gguf) against each other");
  command.Option("--strings", &args->strings,
                 "With --compare: strings generated, beside every token and merge");
  command.Flag("--lenient", &args->lenient,
               "Take what the reference library takes: gaps between ids, merges twice, ids that disagree");
  command.Excludes("--batch", {"text", "--explain", "--no-special-tokens", "--special-tokens-as-text"});
  command.Help({.examples = {"slm tokenize models/slm-demo 'Hello  12 world' --explain",
                             "echo '{\"id\":1,\"text\":\"Hello\"}' | slm tokenize models/slm-demo --batch"},
                .input = "tokenizer file and text of at most 256 MiB each",
                .memory = "the compiled tokenizer, and up to 300 bytes for each byte of text",
                .time = "n log n in the longest word, linear in the rest"});
  command.Run([args, &context] {
    if (args->compare && args->text == "-") {
      const Status status =
          IsDirectory(args->model)
              ? CompareDirectory(context, *args)
              : Fail(MakeError(ErrorCode::kUsage, "--compare takes two tokenizers, or a directory")
                         .Field("TEXT"));
      if (!status) context.Report(status.error());
      return;
    }
    const auto tokenizer = OpenTokenizer({args->model, context.store}, {.lenient = args->lenient});
    if (!tokenizer) return context.Report(tokenizer.error());
    if (args->compare) {
      if (const Status status = CompareTokenizers(context, *args, **tokenizer); !status)
        context.Report(status.error());
      return;
    }
    if (args->batch) {
      return RunBatch(context, [&](const json::Value& record, json::Writer& out) {
        return records::TokenizeRecord(**tokenizer, record, out);
      });
    }
    if (const Status status = TokenizeOne(context, *args, **tokenizer); !status)
      context.Report(status.error());
  });
}

void RegisterDetokenize(Command& root, AppContext& context) {
  auto* args = context.Own<DetokenizeArgs>();
  Command& command = root.Add("detokenize", "The bytes that token ids stand for");
  command.Option(
      "model", &args->model,
      "Source directory, tokenizer.json, SentencePiece .model, .gguf, .slm, or id of an acquisition",
      /*required=*/true);
  command.Option("ids", &args->ids, "Token ids (default: standard input)");
  command.Option("--mode", &args->mode,
                 "raw (bytes), visible (as the reference shows it) or diagnostic (escaped)");
  command.Flag("--batch", &args->batch, "JSON Lines in, JSON Lines out");
  command.Flag("--lenient", &args->lenient, "Take what the reference library takes");
  command.Excludes("--batch", {"ids", "--mode"});
  command.Help({.examples = {"slm detokenize models/slm-demo 72 101 108",
                             "echo '{\"id\":1,\"ids\":[72,101]}' | slm detokenize models/slm-demo --batch"},
                .input = "tokenizer file of at most 256 MiB, ids of at most 256 MiB of text",
                .memory = "the compiled tokenizer, and about 20 bytes for each id",
                .time = "linear"});
  command.Run([args, &context] {
    const auto tokenizer = OpenTokenizer({args->model, context.store}, {.lenient = args->lenient});
    if (!tokenizer) return context.Report(tokenizer.error());
    if (args->batch) {
      return RunBatch(context, [&](const json::Value& record, json::Writer& out) {
        return records::DetokenizeRecord(**tokenizer, record, out);
      });
    }
    if (const Status status = DetokenizeOne(context, *args, **tokenizer); !status)
      context.Report(status.error());
  });
}

}  // namespace slm::app
