#include "apps/slm/sampling_args.h"

#include <cmath>

#include "apps/slm/commands.h"

namespace slm::app {
namespace {

std::unexpected<Error> BadOption(std::string_view option, std::string message) {
  return Fail(MakeError(ErrorCode::kUsage, std::move(message)).Field(option));
}

}  // namespace

void AddSamplingOptions(Command& command, SamplingArgs* args) {
  command.Option("--temperature", &args->temperature,
                 "0 (default): the likeliest token; else logits are divided by it");
  command.Option("--top-k", &args->top_k, "Keep so many tokens; 0 (default): all", WholeRange{0, UINT32_MAX});
  command.Option("--top-p", &args->top_p,
                 "Keep the likeliest tokens up to this probability; 1 (default): all");
  command.Option("--min-p", &args->min_p,
                 "Keep tokens of at least this share of the largest probability (default 0)");
  command.Option("--repetition-penalty", &args->repetition_penalty,
                 "Divides the logits of tokens that were there before; 1 (default): none");
  command.Option("--repetition-window", &args->repetition_window,
                 "How many of the last tokens count for it (default: all)");
  command.Option("--min-new-tokens", &args->min_new_tokens,
                 "No end of sequence before so many tokens (default 0)");
  command.Option("--ban", &args->bans, "A token id, or several with commas, that is never chosen");
  command.Option("--seed", &args->seed,
                 "Of the draws, 0 to 2^64 - 1 (default 0); the same seed gives the same text");
}

Result<SamplingOptions> SamplingOf(const SamplingArgs& args) {
  SamplingOptions options;
  options.temperature = args.temperature;
  options.top_k = static_cast<uint32_t>(args.top_k);
  options.top_p = args.top_p;
  options.min_p = args.min_p;
  options.repetition_penalty = static_cast<float>(args.repetition_penalty);
  options.min_new_tokens = args.min_new_tokens;
  options.seed = args.seed;
  if (args.repetition_window.size() > 1)
    return BadOption("--repetition-window", "--repetition-window is given once");
  if (!args.repetition_window.empty()) {
    SLM_ASSIGN(const std::vector<uint32_t> window,
               ParseTokenIds(args.repetition_window.front(), "--repetition-window"));
    if (window.size() != 1)
      return BadOption("--repetition-window", "--repetition-window is a number of tokens");
    options.repetition_window = window.front();
  }
  for (const std::string& text : args.bans) {
    SLM_ASSIGN(const std::vector<uint32_t> ids, ParseTokenIds(text, "--ban"));
    options.bans.insert(options.bans.end(), ids.begin(), ids.end());
  }
  // All but the bans can be checked before a model is there.
  SamplingOptions without_ids = options;
  without_ids.bans.clear();
  const Result<Sampler> checked = Sampler::Create(std::move(without_ids), 1, {});
  if (!checked) return Fail(checked.error());
  return options;
}

}  // namespace slm::app
