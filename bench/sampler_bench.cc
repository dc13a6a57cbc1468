// One step of the sampler over a vocabulary of 128,000: top-k 40 with top-p 0.95, and the whole
// vocabulary with top-p 0.95. Prints microseconds a token (median and spread of the rounds) and one
// JSON object; exit status 1 where the first is not under 200.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

#include "sampler/sampler.h"

namespace {

constexpr uint64_t kVocabulary = 128000;
constexpr int kRounds = 9;
constexpr double kCeilingMicroseconds = 200;

std::vector<std::vector<float>> Rows(size_t n_rows) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 4.0f);
  std::vector<std::vector<float>> rows(n_rows, std::vector<float>(kVocabulary));
  for (std::vector<float>& row : rows) {
    for (float& logit : row) logit = normal(random);
  }
  return rows;
}

// Microseconds a token of each round, sorted.
std::vector<double> Measure(const slm::SamplingOptions& options, const std::vector<std::vector<float>>& rows,
                            int n_tokens) {
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    auto sampler = slm::Sampler::Create(options, kVocabulary, {});
    std::vector<uint32_t> context;
    const auto start = std::chrono::steady_clock::now();
    for (int token = 0; token < n_tokens; ++token)
      context.push_back(sampler->Next(rows[static_cast<size_t>(token) % rows.size()], context).value_or(0));
    const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
    rounds.push_back(elapsed.count() / n_tokens);
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds;
}

}  // namespace

int main() {
  const std::vector<std::vector<float>> rows = Rows(8);
  const std::vector<double> narrow = Measure(
      {.temperature = 0.8, .top_k = 40, .top_p = 0.95, .repetition_penalty = 1.1f, .seed = 1}, rows, 200);
  const std::vector<double> wide = Measure({.temperature = 0.8, .top_p = 0.95, .seed = 1}, rows, 10);
  std::printf(
      "vocabulary 128,000, top-k 40, top-p 0.95: median %.0f us a token (%.0f to %.0f; to reach: under "
      "%.0f)\n",
      narrow[kRounds / 2], narrow.front(), narrow.back(), kCeilingMicroseconds);
  std::printf("vocabulary 128,000, top-p 0.95 alone:     median %.0f us a token (%.0f to %.0f)\n",
              wide[kRounds / 2], wide.front(), wide.back());
  return narrow[kRounds / 2] < kCeilingMicroseconds ? 0 : 1;
}
