// The options of sampling that `run` and `chat` share.
#ifndef SLM_APPS_SLM_SAMPLING_ARGS_H_
#define SLM_APPS_SLM_SAMPLING_ARGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "apps/slm/args.h"
#include "base/error.h"
#include "sampler/sampler.h"

namespace slm::app {

struct SamplingArgs {
  double temperature = 0;
  uint64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  std::vector<std::string> repetition_window;  // absent, or one number
  uint64_t min_new_tokens = 0;
  std::vector<std::string> bans;
  uint64_t seed = 0;
};

void AddSamplingOptions(Command& command, SamplingArgs* args);

// Error: USAGE or SMP-VALUE, with the option in `field`.
[[nodiscard]] Result<SamplingOptions> SamplingOf(const SamplingArgs& args);

}  // namespace slm::app

#endif  // SLM_APPS_SLM_SAMPLING_ARGS_H_
