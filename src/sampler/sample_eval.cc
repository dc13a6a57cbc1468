// Runs the sampler for independent/sampler_test.py: reads cases from standard input, writes one line
// a step. A case is words: temperature, top_p, min_p (bits of doubles), penalty (bits of a float), all in
// hexadecimal; then decimal: top_k, window (-1: absent), min_new_tokens, seed (hexadecimal), stream, turn;
// four lists, each with its length before it: bans, eos, forbidden, context; the number of steps; the
// vocabulary's size; logits (bits, hexadecimal). Each step's token joins the context.
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

#include "numeric/float_formats.h"
#include "sampler/sampler.h"

namespace {

using namespace slm;

uint64_t Hex() {
  uint64_t value = 0;
  // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): the test writes this input
  return std::scanf("%" SCNx64, &value) == 1 ? value : 0;
}
int64_t Decimal() {
  int64_t value = 0;
  // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): the test writes this input
  return std::scanf("%" SCNd64, &value) == 1 ? value : 0;
}
std::vector<uint32_t> List() {
  std::vector<uint32_t> list(static_cast<size_t>(Decimal()));
  for (uint32_t& id : list) id = static_cast<uint32_t>(Decimal());
  return list;
}

void PrintStep(const SampleTrace& trace) {
  std::printf("%u %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %08x %" PRIu64
              " %016" PRIx64,
              trace.id, trace.drawn ? 1 : 0, trace.n_masked, trace.n_penalized, trace.n_after_top_k,
              trace.n_after_top_p, trace.n_after_min_p, trace.draw, trace.interval,
              std::bit_cast<uint64_t>(trace.mass));
  for (const Survivor& survivor : trace.survivors)
    std::printf(" %u:%08x:%016" PRIx64, survivor.id, numeric::BitsOf(survivor.logit),
                std::bit_cast<uint64_t>(survivor.probability));
  std::printf("\n");
}

void RunCase() {
  SamplingOptions options;
  options.temperature = std::bit_cast<double>(Hex());
  options.top_p = std::bit_cast<double>(Hex());
  options.min_p = std::bit_cast<double>(Hex());
  options.repetition_penalty = numeric::FromBits(static_cast<uint32_t>(Hex()));
  options.top_k = static_cast<uint32_t>(Decimal());
  if (const int64_t window = Decimal(); window >= 0)
    options.repetition_window = static_cast<uint64_t>(window);
  options.min_new_tokens = static_cast<uint64_t>(Decimal());
  options.seed = Hex();
  options.stream = static_cast<uint32_t>(Decimal());
  options.turn = static_cast<uint32_t>(Decimal());
  options.bans = List();
  const std::vector<uint32_t> eos = List();
  const std::vector<uint32_t> forbidden = List();
  std::vector<uint32_t> context = List();
  const int64_t n_steps = Decimal();
  std::vector<float> logits(static_cast<size_t>(Decimal()));
  for (float& logit : logits) logit = numeric::FromBits(static_cast<uint32_t>(Hex()));

  Result<Sampler> sampler = Sampler::Create(options, logits.size(), eos);
  for (int64_t step = 0; step < n_steps; ++step) {
    SampleTrace trace;
    const Result<uint32_t> id = sampler ? sampler->Next(logits, context, forbidden, &trace)
                                        : Result<uint32_t>(std::unexpected(sampler.error()));
    if (id) {
      PrintStep(trace);
      context.push_back(*id);
    } else {
      std::printf("%s %s\n", id.error().CodeText().c_str(), id.error().field.c_str());
    }
  }
}

}  // namespace

int main() {
  for (int64_t n_cases = Decimal(); n_cases > 0; --n_cases) RunCase();
  return 0;
}
