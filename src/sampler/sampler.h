// The one sampler (SMP-01, SMP-02, SMP-03, docs/spec/sampler.md): from a row of logits to a token id,
// with the same bits on every machine, and a trace from which each step can be made again.
//
// Order: finite check; bans and constraints; minimum-length mask of the EOS tokens; repetition
// penalty; at temperature 0 the largest logit (lowest id among equals) and no draw, else: divide by
// the temperature; top-k (descending logit, ascending id); softmax in f64; top-p; min-p;
// renormalize; one draw. Logits and penalty are float32, everything after is float64; the
// exponential is correctly rounded (numeric/exact_exp64.h); sums run in the order of the tokens.
//
// A draw is word 0 of block {0, token_index, turn, stream} of Philox4x32-10 under the key
// {seed mod 2^32, seed / 2^32}: it depends on the place of the token, not on what was drawn before.
#ifndef SLM_SAMPLER_SAMPLER_H_
#define SLM_SAMPLER_SAMPLER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "numeric/philox.h"

namespace slm {

// What `run` records as its sampling profile.
inline constexpr std::string_view kSamplingProfile = "slm.sampling.v1";

struct SamplingOptions {
  double temperature = 0.0;                        // 0: greedy; else from 2^-126 on
  uint32_t top_k = 0;                              // 0: off
  double top_p = 1.0;                              // 0 to 1; 1: off
  double min_p = 0.0;                              // 0 to 1; 0: off
  float repetition_penalty = 1.0f;                 // above 0; 1: off
  std::optional<uint64_t> repetition_window = {};  // last tokens of the context that count; absent: all
  uint64_t min_new_tokens = 0;                     // no EOS token before so many new tokens
  std::vector<uint32_t> bans = {};                 // token ids that are never chosen
  uint64_t seed = 0;
  uint32_t stream = 0;
  uint32_t turn = 0;
};

struct Survivor {
  uint32_t id;
  float logit;         // after the repetition penalty
  double probability;  // among those that top-k left
};

// One choice. Counts are of tokens; those of filters that are off repeat the count before.
struct SampleTrace {
  uint64_t token_index = 0;  // of the new token, from 0
  uint64_t n_masked = 0;     // by bans, constraint and minimum length
  uint64_t n_penalized = 0;  // tokens that the repetition penalty changed
  bool drawn = false;        // false: greedy, and the fields below stay empty
  uint64_t n_after_top_k = 0;
  uint64_t n_after_top_p = 0;
  uint64_t n_after_min_p = 0;
  std::vector<Survivor> survivors = {};  // after min-p, in order
  numeric::PhiloxCounter counter = {};
  numeric::PhiloxKey key = {};
  uint32_t draw = 0;      // the word
  double uniform = 0.0;   // draw * 2^-32
  uint64_t interval = 0;  // index of the chosen survivor
  double mass = 0.0;      // sum of the survivors' probabilities, before they are renormalized
  uint32_t id = 0;        // chosen
};

class Sampler {
 public:
  // Errors: SMP-VALUE, with the option's name in `field`. `eos_ids` are masked by min_new_tokens.
  [[nodiscard]] static Result<Sampler> Create(SamplingOptions options, uint64_t vocab_size,
                                              std::span<const uint32_t> eos_ids);

  // Chooses the next token from `logits` [vocab_size]. `context` holds the ids before it, prompt and
  // new ones. `forbidden` are ids that a constraint rules out at this step. Each call is one new
  // token of the turn. Errors: NONFINITE and SMP-MASKED, which leave the sampler as it was.
  [[nodiscard]] Result<uint32_t> Next(std::span<const float> logits, std::span<const uint32_t> context,
                                      std::span<const uint32_t> forbidden = {}, SampleTrace* trace = nullptr);

  [[nodiscard]] const SamplingOptions& options() const { return options_; }
  [[nodiscard]] uint64_t token_index() const { return token_index_; }

 private:
  struct Ranked {
    uint64_t key;  // order of the logit (descending) in the upper half, id in the lower
    float logit;
  };

  Sampler(SamplingOptions options, uint64_t vocab_size);
  [[nodiscard]] Result<float> Penalized(float logit, uint32_t id) const;
  void Mark(std::span<const uint32_t> ids, uint8_t flag);
  void Unmark(std::span<const uint32_t> ids, uint8_t flag);
  [[nodiscard]] std::span<const uint32_t> Window(std::span<const uint32_t> context) const;
  [[nodiscard]] Result<uint32_t> Choose(std::span<const float> logits, bool keep_survivors,
                                        SampleTrace* record);
  [[nodiscard]] Status RankBest(std::span<const float> logits, uint64_t n_kept, SampleTrace* record);
  [[nodiscard]] Status RankAll(std::span<const float> logits, SampleTrace* record);
  void SortByLogit();
  [[nodiscard]] uint32_t Draw(bool keep_survivors, SampleTrace* record);

  SamplingOptions options_;
  uint64_t vocab_size_;
  std::vector<uint32_t> eos_ids_;
  std::vector<uint8_t> flags_;  // of each token: banned, forbidden, seen
  uint64_t n_masked_ = 0;       // tokens that are banned or forbidden now
  uint64_t token_index_ = 0;
  // Scratch of one step, kept to allocate once.
  std::vector<Ranked> ranked_;
  std::vector<Ranked> swap_;
  std::vector<double> weights_;
};

}  // namespace slm

#endif  // SLM_SAMPLER_SAMPLER_H_
