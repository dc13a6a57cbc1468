// slm run FILE.slm [PROMPT] [--batch] [--record] [--kernel K]
#include <array>
#include <cstdio>

#include "apps/slm/chain.h"
#include "apps/slm/commands.h"
#include "apps/slm/sampling_args.h"
#include "base/utf8.h"
#include "codec/sha256.h"
#include "evidence/candidate.h"
#include "evidence/cases_file.h"
#include "evidence/receipt.h"
#include "evidence/sampling_record.h"
#include "runtime/generate.h"
#include "runtime/text_output.h"

namespace slm::app {
namespace {

constexpr uint64_t kMaxPromptBytes = uint64_t{16} << 20;

constexpr uint64_t kDefaultNewTokens = 128;  // of the command and of a batch record alike

struct RunArgs {
  std::string artifact;
  std::string prompt = "-";
  std::string kernel = "scalar";
  std::vector<std::string> ids;  // of the option, which is given at most once
  uint64_t max_new_tokens = kDefaultNewTokens;
  uint64_t threads = 1;
  bool batch = false;
  bool record = false;
  bool chat = false;
  bool ignore_eos = false;
  bool trace = false;
  SamplingArgs sampling;
  std::vector<std::string> stop;
};

// One request: a prompt and how to go on from it.
struct Request {
  evidence::CaseSpec spec;
  std::vector<uint32_t> stop_ids;
  std::vector<std::string> stop;
  SamplingOptions sampling;
  LogitRows logits = LogitRows::kNone;
  bool trace = false;
};

struct Answer {
  evidence::Prompt prompt;
  slm::Generation generation;
  std::vector<float> step_logits;  // [tokens][vocab]; only when recording
  std::string raw;                 // bytes of the new tokens, nothing skipped
  std::string visible;             // special tokens skipped, cut off at a stop string
  std::vector<std::string> trace;  // JSON of each token's choice
  Hash256 kv_sha256{};
  uint64_t n_vocab = 0;
  std::vector<std::string> warnings;  // what a reader of the output should know
};

std::unexpected<Error> BadRecord(const json::Value& at, std::string message, std::string_view field) {
  return Fail(MakeError(ErrorCode::kCaseSchema, std::move(message)).At(at.byte_offset()).Field(field));
}

Result<std::vector<std::string>> ParseStop(const json::Value& value) {
  std::vector<std::string> stop;
  if (value.is_string()) {
    stop.emplace_back(value.string());
    return stop;
  }
  if (!value.is_array()) return BadRecord(value, "stop is a string or an array of strings", "stop");
  for (json::Value item : value.children()) {
    if (!item.is_string()) return BadRecord(item, "a stop string is a string", "stop");
    stop.emplace_back(item.string());
  }
  return stop;
}

Result<Request> ParseRequest(const json::Value& record) {
  Request request;
  SLM_ASSIGN(request.spec,
             evidence::ParseCaseInput(record, "", {"sampling", "stop", "stop_ids", "logits", "trace"}));
  if (!record.Find("max_new_tokens")) request.spec.max_new_tokens = kDefaultNewTokens;
  if (const auto sampling = record.Find("sampling")) {
    SLM_ASSIGN(request.sampling, evidence::ParseSampling(*sampling));
  }
  if (const auto stop = record.Find("stop")) {
    SLM_ASSIGN(request.stop, ParseStop(*stop));
  }
  if (const auto trace = record.Find("trace")) {
    if (!trace->is_bool()) return BadRecord(*trace, "trace is true or false", "trace");
    request.trace = trace->boolean();
  }
  if (const auto ids = record.Find("stop_ids")) {
    if (!ids->is_array()) return BadRecord(*ids, "stop_ids is an array of ids", "stop_ids");
    for (json::Value item : ids->children()) {
      const auto id = item.is_number() ? item.AsUint() : std::nullopt;
      if (!id || *id > UINT32_MAX) return BadRecord(item, "an id is an integer of 32 bits", "stop_ids");
      request.stop_ids.push_back(static_cast<uint32_t>(*id));
    }
  }
  if (const auto logits = record.Find("logits")) {
    const std::string_view which = logits->is_string() ? logits->string() : "";
    if (which == "last") {
      request.logits = LogitRows::kLast;
    } else if (which == "all") {
      request.logits = LogitRows::kAll;
    } else if (which != "none") {
      return BadRecord(*logits, "logits is none, last or all", "logits");
    }
  }
  return request;
}

// RUN-01: what does not stop a run and still bears on its output.
std::vector<std::string> WarningsOf(const evidence::Candidate& candidate, const Request& request,
                                    const Answer& answer) {
  std::vector<std::string> warnings;
  if (request.spec.kind == golden::InputKind::kUtf8 && candidate.chat_template() != nullptr)
    warnings.emplace_back("the artifact has a chat template, and this prompt did not go through it");
  std::string declared;
  for (const cbor::Value& row : *candidate.artifact().manifest().Find("sampling_declarations")->AsArray())
    declared += (declared.empty() ? "" : ", ") + *row.AsMap()->Find("key")->AsTextString();
  if (!declared.empty() && request.sampling.temperature == 0)
    warnings.push_back("decoded greedily; the publisher's sampling declarations are not applied: " +
                       declared);
  if (answer.generation.stop_reason == StopReason::kContext)
    warnings.emplace_back("the context was full before max_new_tokens was reached");
  if (FindUtf8Fault(answer.visible)) warnings.emplace_back("the visible bytes are not well-formed UTF-8");
  return warnings;
}

Result<Answer> Execute(const evidence::Candidate& candidate, Session& session, const Request& request,
                       bool keep_logits, const std::function<Status(const std::string& piece)>& on_text,
                       const std::function<void(const std::string& trace)>& on_trace) {
  Answer answer;
  SLM_ASSIGN(answer.prompt, candidate.Prepare(request.spec));
  SLM_TRY(session.Truncate(0));
  GenerateOptions options;
  options.max_new_tokens = request.spec.max_new_tokens;
  options.stop_at_eos = request.spec.stop_at_eos;
  options.stop_ids = request.stop_ids;
  options.prompt_logits = request.logits;
  if (keep_logits) {
    options.on_logits = [&answer](uint64_t, std::span<const float> logits, uint32_t) {
      answer.step_logits.insert(answer.step_logits.end(), logits.begin(), logits.end());
    };
  }
  options.sampling = request.sampling;
  if (request.trace) {
    options.on_trace = [&](const SampleTrace& trace) {
      json::Writer line;
      evidence::WriteTrace(trace, line);
      answer.trace.push_back(line.Take());
      if (on_trace) on_trace(answer.trace.back());
    };
  }
  SLM_ASSIGN(TextOutput output, TextOutput::Create(candidate.tokenizer(), request.stop));
  Status status;
  const auto show = [&](const Result<std::string>& piece) -> Status {
    if (!piece) return Fail(piece.error());
    return on_text && !piece->empty() ? on_text(*piece) : Status();
  };
  const auto on_token = [&](uint32_t id) {
    status = show(output.Push(id));
    if (!status.has_value()) return AfterToken::kCancel;
    return output.stopped_by() ? AfterToken::kStopString : AfterToken::kGoOn;
  };
  SLM_ASSIGN(answer.generation, Generate(session, answer.prompt.ids, options, on_token));
  SLM_TRY(std::move(status));
  SLM_TRY(show(output.Finish()));
  answer.visible = output.text();
  if (candidate.tokenizer() != nullptr) {
    SLM_ASSIGN(answer.raw, candidate.tokenizer()->Decode(answer.generation.ids, tokenizer::DecodeMode::kRaw));
  }
  answer.n_vocab = candidate.model()->plan().vocab_size;
  answer.kv_sha256 = session.KvHash();
  answer.warnings = WarningsOf(candidate, request, answer);
  return answer;
}

void WriteIds(json::Writer& out, std::string_view key, const std::vector<uint32_t>& ids) {
  out.Key(key).BeginArray();
  for (const uint32_t id : ids) out.Uint(id);
  out.EndArray();
}

void WriteAnswer(const Answer& answer, json::Writer& out) {
  WriteIds(out, "prompt_ids", answer.prompt.ids);
  WriteIds(out, "tokens", answer.generation.ids);
  if (!FindUtf8Fault(answer.visible)) out.Key("text").String(answer.visible);
  out.Key("bytes").String(ToBase64(AsBytes(answer.visible)));
  out.Key("stop_reason").String(StopReasonName(answer.generation.stop_reason));
  if (!answer.trace.empty()) {
    out.Key("trace").BeginArray();
    for (const std::string& step : answer.trace) out.Raw(step);
    out.EndArray();
  }
  if (answer.generation.prompt_logits.empty()) return;
  Bytes values;
  for (const float value : answer.generation.prompt_logits) AppendLe(&values, std::bit_cast<uint32_t>(value));
  out.Key("logits").BeginObject().Key("shape").BeginArray();
  out.Uint(answer.generation.prompt_logits.size() / answer.n_vocab).Uint(answer.n_vocab).EndArray();
  out.Key("f32").String(ToBase64(values)).EndObject();
}

Bytes IdBytes(const std::vector<uint32_t>& ids) {
  Bytes out;
  for (const uint32_t id : ids) AppendLe(&out, id);
  return out;
}

struct ArtifactNode {
  Hash256 id;
  Node node;
};

// The store's artifact node of this root, which binds tokenizer, template and source.
Result<ArtifactNode> FindArtifactNode(const Store& store, const Hash256& root) {
  SLM_ASSIGN(const std::vector<Hash256> all, store.FindByPrefix(""));
  for (const Hash256& candidate : all) {
    SLM_ASSIGN(Node node, store.GetNode(candidate));
    if (node.type != "artifact" || evidence::HashOf(node, "root") != root) continue;
    return ArtifactNode{candidate, std::move(node)};
  }
  return Fail(MakeError(ErrorCode::kNotFound,
                        "the store has no artifact node with root " + ToHex(root) +
                            ", and a run record binds it; convert the source into this store first")
                  .Field("--record"));
}

cbor::Array TextArray(const std::vector<std::string>& texts) {
  cbor::Array out;
  for (const std::string& text : texts) out.emplace_back(text);
  return out;
}

// RUN-01: everything that a run binds. Raw output is kept as it came.
Result<Hash256> Record(Store& store, const ArtifactNode& artifact, const evidence::Candidate& candidate,
                       const Session& session, const Request& request, const Answer& answer) {
  SLM_ASSIGN(const evidence::RuntimeBuild build, ThisBuild());
  evidence::Backend backend;
  backend.kernel = session.kernel_name();
  backend.name = backend.kernel;
  SLM_ASSIGN(const Hash256 build_node, store.PutNode(evidence::RuntimeBuildNode(build)));
  SLM_ASSIGN(const Hash256 backend_node, store.PutNode(evidence::BackendNode(backend)));
  Bytes logits;
  for (const float value : answer.step_logits) AppendLe(&logits, std::bit_cast<uint32_t>(value));
  Node node;
  node.type = "run";
  node.edges = {{"artifact", artifact.id}, {"runtime-build", build_node}, {"backend-profile", backend_node}};
  for (const std::string_view role : {"tokenizer", "template"}) {
    if (const Hash256* child = artifact.node.Child(role)) node.edges.push_back({std::string(role), *child});
  }
  const Plan& plan = candidate.model()->plan();
  static constexpr std::array<std::string_view, 4> kKinds = {"utf8", "bytes", "token_ids", "messages"};
  node.metadata = cbor::Map{{"schema", "slm.run.v1"},
                            {"artifact_root", candidate.artifact().root()},
                            {"artifact_verified", true},
                            {"input_kind", kKinds[static_cast<size_t>(request.spec.kind)]},
                            {"add_special_tokens", request.spec.add_special_tokens},
                            {"add_generation_prompt", request.spec.add_generation_prompt},
                            {"positions", cbor::Map{{"begin", 0}, {"count", answer.prompt.ids.size()}}},
                            {"mask", "causal"},
                            {"sampling", evidence::SamplingToCbor(request.sampling)},
                            {"stop", TextArray(request.stop)},
                            {"max_new_tokens", request.spec.max_new_tokens},
                            {"stop_at_eos", request.spec.stop_at_eos},
                            {"stop_reason", StopReasonName(answer.generation.stop_reason)},
                            {"kv_sha256", answer.kv_sha256},
                            {"kv", cbor::Map{{"dtype", "f32"},
                                             {"layout", "layer,kv_head,position,head_dim"},
                                             {"n_layers", plan.n_layers},
                                             {"n_kv_heads", plan.n_kv_heads},
                                             {"head_dim", plan.head_dim},
                                             {"begin", 0},
                                             {"count", session.n_positions()}}},
                            {"n_vocab", answer.n_vocab},
                            {"warnings", TextArray(answer.warnings)}};
  cbor::Array stop_ids;
  for (const uint32_t id : request.stop_ids) stop_ids.emplace_back(id);
  node.metadata.Set("stop_ids", std::move(stop_ids));
  const auto put = [&](std::string_view key, ByteSpan bytes) -> Status {
    if (bytes.empty()) return {};
    SLM_ASSIGN(const Hash256 blob, store.PutBlob(bytes));
    node.metadata.Set(key, blob);
    return {};
  };
  SLM_TRY(put("input_blob", request.spec.data));
  if (answer.prompt.rendered) SLM_TRY(put("rendered_blob", AsBytes(answer.prompt.rendered->text)));
  SLM_TRY(put("prompt_ids_blob", IdBytes(answer.prompt.ids)));
  SLM_TRY(put("tokens_blob", IdBytes(answer.generation.ids)));
  SLM_TRY(put("logits_blob", logits));
  std::string trace;
  for (const std::string& step : answer.trace) trace += step + "\n";
  SLM_TRY(put("trace_blob", AsBytes(trace)));
  SLM_TRY(put("raw_blob", AsBytes(answer.raw)));
  SLM_TRY(put("visible_blob", AsBytes(answer.visible)));
  SLM_ASSIGN(const Hash256 id, store.PutNode(node));
  SLM_TRY(store.AppendLog("run", std::span(&id, 1)));
  return id;
}

Result<Request> RequestOf(const RunArgs& args) {
  Request request;
  request.spec.id = "prompt";
  request.spec.max_new_tokens = args.max_new_tokens;
  request.spec.stop_at_eos = !args.ignore_eos;
  SLM_ASSIGN(request.sampling, SamplingOf(args.sampling));
  request.stop = args.stop;
  request.trace = args.trace || args.record;
  if (!args.ids.empty()) {
    if (args.ids.size() > 1) return Fail(MakeError(ErrorCode::kUsage, "--ids is given once").Field("--ids"));
    SLM_ASSIGN(request.spec.ids, ParseTokenIds(args.ids.front(), "--ids"));
    if (request.spec.ids.empty())
      return Fail(MakeError(ErrorCode::kUsage, "--ids names no id").Field("--ids"));
    request.spec.kind = golden::InputKind::kTokenIds;
    request.spec.data = IdBytes(request.spec.ids);
    return request;
  }
  std::string text = args.prompt;
  if (text == "-") {
    SLM_ASSIGN(text, ReadTextFile("-", kMaxPromptBytes));
  }
  if (args.chat) {
    if (const auto fault = FindUtf8Fault(text)) {
      return Fail(
          MakeError(ErrorCode::kUtf8, "not well-formed UTF-8").At(fault->byte_offset).In("the prompt"));
    }
    text = "[" + evidence::MessageJson("user", text) + "]";
    request.spec.kind = golden::InputKind::kMessages;
    request.spec.add_generation_prompt = true;
  }
  request.spec.data.assign(text.begin(), text.end());
  return request;
}

Status RunOnce(AppContext& context, const RunArgs& args, const evidence::Candidate& candidate,
               Session& session) {
  SLM_ASSIGN(const Request request, RequestOf(args));
  std::unique_ptr<Store> store;
  ArtifactNode artifact{};
  if (args.record) {  // what a record needs, before the work
    SLM_ASSIGN(store,
               Store::Open(context.store, StoreOptions{.create = false}));  // a new one has no artifact
    SLM_ASSIGN(artifact, FindArtifactNode(*store, candidate.artifact().root()));
  }
  const bool stream = !context.json;
  const auto on_text = [&](const std::string& piece) -> Status {
    if (!stream) return {};
    context.Print(piece);
    return context.Flush();
  };
  // Beside the text, on standard error; --json has it in the document.
  const auto on_trace = [&](const std::string& trace) {
    if (stream && args.trace) std::fprintf(stderr, "%s\n", trace.c_str());
  };
  auto executed = Execute(candidate, session, request, args.record, on_text, on_trace);
  if (!executed) {
    // An offset is one in the prompt; what has none is about what the artifact takes.
    Error error = std::move(executed).error();
    const bool in_prompt = error.byte_offset.has_value();
    return Fail(std::move(error).In(in_prompt ? "the prompt" : args.artifact));
  }
  const Answer answer = *std::move(executed);
  std::string record_id;
  if (args.record) {
    SLM_ASSIGN(const Hash256 id, Record(*store, artifact, candidate, session, request, answer));
    record_id = ToHex(id);
  }
  if (stream) {
    if (candidate.tokenizer() == nullptr) {
      for (const uint32_t id : answer.generation.ids) context.Print(std::to_string(id) + " ");
    }
    context.Print("\n");
    if (!record_id.empty()) std::fprintf(stderr, "run %s\n", record_id.c_str());
    return {};
  }
  json::Writer out;
  out.BeginObject();
  WriteAnswer(answer, out);
  out.Key("warnings").BeginArray();
  for (const std::string& warning : answer.warnings) out.String(warning);
  out.EndArray();
  if (!record_id.empty()) out.Key("run").String(record_id);
  out.EndObject();
  context.Print(out.Take() + "\n");
  return {};
}

Status Run(AppContext& context, const RunArgs& args) {
  const auto kernel = ops::KernelFromName(args.kernel);
  if (!kernel) return Fail(UnknownName("kernel", "--kernel", args.kernel, {"scalar", "vector"}));
  if (args.threads != 1) {
    return Fail(MakeError(ErrorCode::kUnsupported, "this build runs on one thread").Field("--threads"));
  }
  SLM_TRY(SamplingOf(args.sampling));
  auto artifact = Artifact::OpenFile(args.artifact, args.record ? Verify::kAllChunks : Verify::kHeaderOnly);
  if (!artifact.has_value()) return Fail(std::move(artifact).error().In(args.artifact));
  auto loaded = evidence::Candidate::Open(*std::move(artifact));
  if (!loaded.has_value()) return Fail(std::move(loaded).error().In(args.artifact));
  const auto candidate = *std::move(loaded);
  SLM_ASSIGN(const auto session,
             Session::Create(candidate->model(), {.max_positions = 0, .kernel = *kernel}));
  if (!args.batch) return RunOnce(context, args, *candidate, *session);
  RunBatch(context, [&](const json::Value& record, json::Writer& out) -> Status {
    SLM_ASSIGN(const Request request, ParseRequest(record));
    SLM_ASSIGN(const Answer answer, Execute(*candidate, *session, request, false, {}, {}));
    WriteAnswer(answer, out);
    return {};
  });
  return {};
}

}  // namespace

void RegisterRun(Command& root, AppContext& context) {
  auto* args = context.Own<RunArgs>();
  Command& command = root.Add("run", "Runs an artifact; text comes as it is generated");
  command.Option("file", &args->artifact, "The .slm file", true);
  command.Option("prompt", &args->prompt, "Prompt text; - or nothing reads standard input");
  command.Option("--ids", &args->ids, "Prompt as token ids, separated by commas or blanks");
  command.Flag("--chat", &args->chat, "The prompt is one user message for the chat template");
  command.Option("--max-new-tokens", &args->max_new_tokens, "At most so many new tokens (default 128)",
                 WholeRange{0, evidence::kMaxNewTokens});
  command.Flag("--ignore-eos", &args->ignore_eos, "Go on after an end-of-sequence token");
  AddSamplingOptions(command, &args->sampling);
  command.Option("--stop", &args->stop, "End at this text, which is not shown; may be given several times");
  command.Flag("--trace", &args->trace,
               "How each token was chosen: filters, draw, probabilities; JSON Lines on standard error");
  command.Option("--kernel", &args->kernel, "scalar or vector; both give the same bits");
  command.Option("--threads", &args->threads, "1", WholeRange{1, 1024});
  command.Flag("--record", &args->record,
               "Write a run node with everything that the run binds into the store");
  command.Flag("--batch", &args->batch, "JSON Lines on standard input, one answer a line");
  command.Excludes("--ids", {"prompt", "--chat"});
  command.Excludes(
      "--batch", {"prompt", "--ids", "--chat", "--max-new-tokens", "--ignore-eos", "--temperature", "--top-k",
                  "--top-p", "--min-p", "--repetition-penalty", "--repetition-window", "--min-new-tokens",
                  "--ban", "--seed", "--stop", "--trace", "--record"});
  command.Help({.examples = {"slm run model.slm \"Once upon a time\" --max-new-tokens 64",
                             "slm run model.slm --ids 1,2,3 --json",
                             "slm run model.slm --chat \"Hello\" --temperature 0.8 --top-p 0.95 --seed 7"},
                .input = "prompt of at most 16 MiB; 2^20 new tokens, and the context of the artifact",
                .memory = "the mapped artifact, the key/value cache and one row of logits; with --record one "
                          "row for each new token",
                .time = "a pass over the weights for each token; --record hashes the artifact first"});
  command.Run([args, &context] {
    const Status status = Run(context, *args);
    if (!status.has_value()) context.Report(status.error());
  });
}

}  // namespace slm::app
