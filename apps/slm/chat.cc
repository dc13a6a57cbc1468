// slm chat FILE.slm: a conversation in the terminal, or one message a line from a pipe.
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "apps/slm/commands.h"
#include "apps/slm/prompt_owners.h"
#include "apps/slm/sampling_args.h"
#include "base/utf8.h"
#include "evidence/candidate.h"
#include "evidence/cases_file.h"
#include "runtime/generate.h"
#include "runtime/text_output.h"

namespace slm::app {
namespace {

constexpr uint64_t kMaxLineBytes = uint64_t{1} << 20;

struct ChatArgs {
  std::string artifact;
  std::string system;
  std::string kernel = "scalar";
  uint64_t max_new_tokens = 512;
  bool explain = false;
  SamplingArgs sampling;
};

// One conversation. The session keeps what it has read; each turn it goes on from the longest prefix of
// ids that the new prompt shares with it (RUN-03: the ids themselves are compared).
class Conversation {
 public:
  Conversation(AppContext& context, const ChatArgs& args, SamplingOptions sampling,
               std::shared_ptr<const evidence::Candidate> candidate, std::unique_ptr<Session> session)
      : context_(context),
        args_(args),
        sampling_(std::move(sampling)),
        candidate_(std::move(candidate)),
        session_(std::move(session)) {
    Reset();
  }

  void Reset() {
    messages_.clear();
    sampling_.turn = 0;
    if (!args_.system.empty()) Add("system", args_.system);
  }

  // Answers one message. On an error the conversation is as it was before.
  Status Say(const std::string& text) {
    Add("user", text);
    Result<std::string> answer = Answer();
    if (!answer) {
      messages_.pop_back();
      return Fail(std::move(answer).error());
    }
    Add("assistant", *answer);
    ++sampling_.turn;
    return {};
  }

 private:
  void Add(std::string_view role, std::string_view content) {
    messages_.push_back(evidence::MessageJson(role, content));
  }

  evidence::CaseSpec Spec() const {
    evidence::CaseSpec spec;
    spec.id = "chat";
    spec.kind = golden::InputKind::kMessages;
    spec.add_generation_prompt = true;
    std::string all = "[";
    for (const std::string& message : messages_) all += (all.size() > 1 ? "," : "") + message;
    all += "]";
    spec.data.assign(all.begin(), all.end());
    return spec;
  }

  Result<std::string> Answer() {
    const evidence::CaseSpec spec = Spec();
    SLM_ASSIGN(const evidence::Prompt prompt, candidate_->Prepare(spec));
    if (args_.explain) {
      SLM_ASSIGN(const auto owners, OwnersOfPrompt(*candidate_, spec, prompt));
      if (owners) std::fprintf(stderr, "%s", prompt::TokenOwnersText(*owners).c_str());
    }
    const std::span<const uint32_t> known = session_->ids();
    const auto shared =
        std::mismatch(known.begin(), known.end(), prompt.ids.begin(), prompt.ids.end()).first - known.begin();
    // At least one id is fed: its logits choose the first token.
    const uint64_t kept = std::min<uint64_t>(static_cast<uint64_t>(shared), prompt.ids.size() - 1);
    SLM_TRY(session_->Truncate(kept));
    GenerateOptions options{.max_new_tokens = args_.max_new_tokens};
    options.sampling = sampling_;
    SLM_ASSIGN(TextOutput output, TextOutput::Create(candidate_->tokenizer(), {}));
    Status status;
    const auto on_token = [&](uint32_t id) {
      status = Show(output.Push(id));
      return status.has_value() ? AfterToken::kGoOn : AfterToken::kCancel;
    };
    SLM_ASSIGN(
        const Generation generation,
        Generate(*session_, std::span(prompt.ids).subspan(static_cast<size_t>(kept)), options, on_token));
    SLM_TRY(std::move(status));
    SLM_TRY(Show(output.Finish()));
    context_.Print("\n");
    SLM_TRY(context_.Flush());
    if (generation.stop_reason == StopReason::kContext)
      std::fprintf(stderr, "the context of %llu tokens is full; /reset starts anew\n",
                   static_cast<unsigned long long>(session_->max_positions()));
    // What goes on in the conversation is text: a tail that is no character is left out.
    std::string text = output.text();
    if (const auto fault = FindUtf8Fault(text)) text.resize(static_cast<size_t>(fault->byte_offset));
    return text;
  }

  Status Show(const Result<std::string>& piece) {
    if (!piece) return Fail(piece.error());
    context_.Print(*piece);
    return context_.Flush();
  }

  AppContext& context_;
  const ChatArgs& args_;
  SamplingOptions sampling_;
  std::shared_ptr<const evidence::Candidate> candidate_;
  std::unique_ptr<Session> session_;
  std::vector<std::string> messages_;  // JSON objects
};

// One line without its end; false at the end of the input.
Result<bool> ReadLine(std::string* line) {
  line->clear();
  for (int byte = std::getc(stdin); byte != EOF; byte = std::getc(stdin)) {
    if (byte == '\n') {
      if (line->ends_with('\r')) line->pop_back();
      return true;
    }
    line->push_back(static_cast<char>(byte));
    if (line->size() > kMaxLineBytes) return Fail(ErrorCode::kLimit, "a message has at most 1 MiB");
  }
  return !line->empty();
}

Status Run(AppContext& context, const ChatArgs& args) {
  if (context.json)
    return Fail(MakeError(ErrorCode::kUsage, "chat is for people; `slm run --batch` answers in JSON")
                    .Field("--json"));
  const auto kernel = ops::KernelFromName(args.kernel);
  if (!kernel) return Fail(UnknownName("kernel", "--kernel", args.kernel, {"scalar", "vector"}));
  SLM_ASSIGN(SamplingOptions sampling, SamplingOf(args.sampling));
  if (FindUtf8Fault(args.system))
    return Fail(MakeError(ErrorCode::kUtf8, "not well-formed UTF-8").Field("--system"));
  auto artifact = Artifact::OpenFile(args.artifact, Verify::kHeaderOnly);
  if (!artifact.has_value()) return Fail(std::move(artifact).error().In(args.artifact));
  auto loaded = evidence::Candidate::Open(*std::move(artifact));
  if (!loaded.has_value()) return Fail(std::move(loaded).error().In(args.artifact));
  const auto candidate = *std::move(loaded);
  if (candidate->chat_template() == nullptr)
    return Fail(MakeError(ErrorCode::kTplMissing,
                          "the artifact has no chat template: it is a base model; `slm run` completes text")
                    .In(args.artifact));
  SLM_ASSIGN(auto session, Session::Create(candidate->model(), {.max_positions = 0, .kernel = *kernel}));
  Conversation conversation(context, args, std::move(sampling), candidate, std::move(session));
  const bool terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
  if (terminal) context.Print("/reset forgets the conversation, /quit or ctrl-D ends it\n");
  std::string line;
  while (true) {
    if (terminal) context.Print("\n> ");
    SLM_TRY(context.Flush());
    SLM_ASSIGN(const bool more, ReadLine(&line));
    if (!more || line == "/quit") break;
    if (line.empty()) continue;
    if (line == "/reset") {
      conversation.Reset();
      continue;
    }
    if (const auto fault = FindUtf8Fault(line))
      return Fail(
          MakeError(ErrorCode::kUtf8, "not well-formed UTF-8").At(fault->byte_offset).In("the message"));
    Status said = conversation.Say(line);
    if (said.has_value()) continue;
    Error error = std::move(said).error().In(args.artifact);
    // A person can go on after a message that is too long; a program that reads a pipe cannot know.
    if (!terminal || error.code != ErrorCode::kCtxLength) return Fail(std::move(error));
    std::fprintf(stderr, "%s; /reset starts anew\n", error.ToString().c_str());
  }
  if (terminal) context.Print("\n");
  return {};
}

}  // namespace

void RegisterChat(Command& root, AppContext& context) {
  auto* args = context.Own<ChatArgs>();
  Command& command = root.Add("chat", "A conversation in the terminal");
  command.Option("file", &args->artifact, "The .slm file; it has a chat template", true);
  command.Option("--system", &args->system, "Instruction that stands before the conversation");
  command.Option("--max-new-tokens", &args->max_new_tokens, "Of each answer, at most (default 512)",
                 WholeRange{1, evidence::kMaxNewTokens});
  AddSamplingOptions(command, &args->sampling);
  command.Flag("--explain", &args->explain, "Before each answer, who emits BOS and EOS, on standard error");
  command.Option("--kernel", &args->kernel, "scalar or vector; both give the same bits");
  command.Help({.examples = {"slm chat model.slm", "slm chat model.slm --temperature 0.8 --seed 1",
                             "echo \"Hello\" | slm chat model.slm"},
                .input = "messages of at most 1 MiB, one a line; the context of the artifact",
                .memory = "the mapped artifact and the key/value cache",
                .time = "a pass over the weights for each token that was not read before"});
  command.Run([args, &context] {
    const Status status = Run(context, *args);
    if (!status.has_value()) context.Report(status.error());
  });
}

}  // namespace slm::app
