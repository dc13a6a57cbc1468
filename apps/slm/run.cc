// slm run FILE.slm [PROMPT] [--batch] [--record] [--kernel K]
#include <array>
#include <cstdio>

#include "apps/slm/chain.h"
#include "apps/slm/commands.h"
#include "apps/slm/prompt_owners.h"
#include "apps/slm/sampling_args.h"
#include "base/utf8.h"
#include "codec/sha256.h"
#include "evidence/candidate.h"
#include "evidence/cases_file.h"
#include "evidence/receipt.h"
#include "evidence/sampling_record.h"
#include "records/run_record.h"

namespace slm::app {
namespace {

using records::Answer;
using records::Request;
using records::WriteAnswer;

constexpr uint64_t kMaxPromptBytes = uint64_t{16} << 20;

struct RunArgs {
  std::string artifact;
  std::string prompt = "-";
  std::string kernel = "scalar";
  std::vector<std::string> ids;  // of the option, which is given at most once
  uint64_t max_new_tokens = records::kDefaultNewTokens;
  uint64_t threads = 1;
  bool batch = false;
  bool record = false;
  bool chat = false;
  bool ignore_eos = false;
  bool trace = false;
  bool explain = false;
  SamplingArgs sampling;
  std::vector<std::string> stop;
};

Bytes IdBytes(const std::vector<uint32_t>& ids) {
  Bytes out;
  for (const uint32_t id : ids) AppendLe(&out, id);
  return out;
}

cbor::Array TextArray(const std::vector<std::string>& texts) {
  cbor::Array out;
  for (const std::string& text : texts) out.emplace_back(text);
  return out;
}

cbor::Array ErrorArray(const std::vector<Error>& errors) {
  cbor::Array out;
  for (const Error& error : errors) {
    cbor::Map one{{"code", error.CodeText()}, {"message", error.message}};
    if (!error.field.empty()) one.Set("field", error.field);
    if (error.byte_offset) one.Set("byte_offset", *error.byte_offset);
    out.emplace_back(std::move(one));
  }
  return out;
}

// RUN-01: everything that a run binds. Raw output is kept as it came.
Result<Hash256> Record(Store& store, const ArtifactNode& artifact, const evidence::Candidate& candidate,
                       const Session& session, const Request& request, const Answer& answer,
                       const std::optional<prompt::TokenOwners>& owners) {
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
                            {"warnings", TextArray(answer.warnings)},
                            {"errors", ErrorArray(answer.errors)}};
  if (owners) node.metadata.Set("special_tokens", prompt::TokenOwnersCbor(*owners));
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
  request.kv = args.record;
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
    auto opened = Store::Open(context.store, StoreOptions{.create = false});  // a new one has no artifact
    if (!opened.has_value() && opened.error().code == ErrorCode::kNotFound) {
      return Fail(
          MakeError(ErrorCode::kNotFound,
                    "no store there; a run record binds the artifact's node: convert the source into this "
                    "store first")
              .In(context.store)
              .Field("--record"));
    }
    SLM_ASSIGN(store, std::move(opened));
    SLM_ASSIGN(artifact, FindArtifactNode(*store, candidate.artifact().root(), "--record"));
  }
  const bool stream = !context.json;
  // The trace goes beside the text, on standard error; --json has it in the document.
  const auto on_step = [&](std::optional<uint32_t>, std::string_view text, std::string_view trace) -> Status {
    if (!stream) return {};
    if (args.trace && !trace.empty())
      std::fprintf(stderr, "%.*s\n", static_cast<int>(trace.size()), trace.data());
    if (text.empty()) return {};
    context.Print(text);
    return context.Flush();
  };
  auto created = records::Run::Create(candidate, session, request, {.keep_logits = args.record});
  if (!created.has_value()) {
    // An offset is one in the prompt; what has none is about what the artifact takes.
    Error error = std::move(created).error();
    const bool in_prompt = error.byte_offset.has_value();
    return Fail(std::move(error).In(in_prompt ? "the prompt" : args.artifact));
  }
  records::Run& run = **created;
  SLM_ASSIGN(const auto owners, OwnersOfPrompt(candidate, request.spec, run.prompt()));
  if (args.explain && stream && owners) std::fprintf(stderr, "%s", prompt::TokenOwnersText(*owners).c_str());
  const Status stepped = records::Continue(run, on_step);
  SLM_ASSIGN(records::Run::End end, stepped.has_value() ? run.Finish() : run.FinishAfter(stepped.error()));
  if (stepped.has_value() && !end.text.empty()) SLM_TRY(on_step(std::nullopt, end.text, {}));
  const Answer answer = std::move(end.answer);
  std::string record_id;
  if (args.record) {
    SLM_ASSIGN(const Hash256 id, Record(*store, artifact, candidate, session, request, answer, owners));
    record_id = ToHex(id);
  }
  if (!stepped.has_value()) {
    if (!record_id.empty()) std::fprintf(stderr, "run %s\n", record_id.c_str());
    return Fail(Error(stepped.error()).In(args.artifact));
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
  WriteAnswer(request, answer, out);
  out.Key("warnings").Strings(answer.warnings);
  if (owners) {
    out.Key("special_tokens");
    prompt::WriteTokenOwners(*owners, out);
  }
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
  RunBatch(context, [&](const json::Value& record, json::Writer& out) -> records::RecordStatus {
    SLM_ASSIGN(const Request request, records::ParseRequest(record));
    SLM_ASSIGN(const auto run, records::Run::Create(*candidate, *session, request, {}));
    if (Status stepped = records::Continue(*run, {}); !stepped.has_value())
      return Fail(std::move(stepped).error().In(args.artifact));
    SLM_ASSIGN(const records::Run::End end, run->Finish());
    WriteAnswer(request, end.answer, out);
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
  command.Flag("--explain", &args->explain,
               "Who emits BOS and EOS, on standard error; --json has it in the document");
  command.Option("--kernel", &args->kernel, "scalar or vector; both give the same bits");
  command.Option("--threads", &args->threads, "1", WholeRange{1, 1024});
  command.Flag("--record", &args->record,
               "Write a run node with everything that the run binds into the store");
  command.Flag("--batch", &args->batch, "JSON Lines on standard input, one answer a line");
  command.Excludes("--ids", {"prompt", "--chat"});
  command.Excludes(
      "--batch", {"prompt", "--ids", "--chat", "--max-new-tokens", "--ignore-eos", "--temperature", "--top-k",
                  "--top-p", "--min-p", "--repetition-penalty", "--repetition-window", "--min-new-tokens",
                  "--ban", "--seed", "--stop", "--trace", "--explain", "--record"});
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
