// Prints one SHA-256 over the logits of a set of prompts: the same hash must come out of every
// compiler, optimization level and instruction set (tests/bits/run_bits.py builds this file with
// each). Everything that computes is part of this one translation unit, so that the flags under
// test apply to it; the libraries linked beside only read files and hash.
//
// Usage: slm_bits MODEL N_PROMPTS MAX_IDS     MODEL: a .slm file, or "random:SEED" for a small model with
// pseudo-random weights made by exact operations. Prompts have 8 to MAX_IDS ids (bounded by the
// context), from a fixed generator.
#include <cstdio>
#include <cstdlib>
#include <cstring>

// NOLINTBEGIN(bugprone-suspicious-include)
#include "model/plan.cc"
#include "numeric/exact_math.cc"
#include "numeric/float_formats.cc"
#include "ops/kernels.cc"
#include "ops/ops.cc"
#include "runtime/bound_model.cc"
#include "runtime/session.cc"
// NOLINTEND(bugprone-suspicious-include)
#include "runtime/test_model.h"

namespace {

using namespace slm;

Result<std::shared_ptr<const Model>> LoadModel(const char* name) {
  if (std::strncmp(name, "random:", 7) == 0) {
    const auto seed = static_cast<uint32_t>(std::strtoul(name + 7, nullptr, 10));
    return testing_model::Bind(testing_model::Random(testing_model::Config(), seed));
  }
  SLM_ASSIGN(std::shared_ptr<const Artifact> artifact, Artifact::OpenFile(name, Verify::kAllChunks));
  return Model::Load(std::move(artifact));
}

// Prompt `index` of `n`: lengths spread evenly over 8 to `max_ids`.
std::vector<uint32_t> Prompt(const Plan& plan, uint64_t index, uint64_t n, uint64_t max_ids) {
  const uint64_t length = std::min(n < 2 ? 8 : 8 + index * (max_ids - 8) / (n - 1), plan.max_positions);
  uint64_t state = 0x9e3779b97f4a7c15u * (index + 1);
  std::vector<uint32_t> ids;
  for (uint64_t i = 0; i < length; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    ids.push_back(static_cast<uint32_t>((state >> 33) % plan.vocab_size));
  }
  return ids;
}

Status Run(const char* name, uint64_t n_prompts, uint64_t max_ids) {
  SLM_ASSIGN(const std::shared_ptr<const Model> model, LoadModel(name));
  Sha256 hash;
  for (uint64_t i = 0; i < n_prompts; ++i) {
    SLM_ASSIGN(const std::unique_ptr<Session> session, Session::Create(model, {}));
    std::vector<float> logits;
    SLM_TRY(
        session->Prefill(Prompt(model->plan(), i, n_prompts, max_ids), LogitRows::kAll, &logits, nullptr));
    Bytes bytes;
    for (const float logit : logits) AppendLe(&bytes, numeric::BitsOf(logit));
    hash.Update(bytes);
    const Hash256 cache = session->KvHash();
    hash.Update(cache);
  }
  std::printf("%s\n", ToHex(hash.Finish()).c_str());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t n_prompts = argc == 4 ? std::strtoull(argv[2], nullptr, 10) : 0;
  const uint64_t max_ids = argc == 4 ? std::strtoull(argv[3], nullptr, 10) : 0;
  if (n_prompts == 0 || max_ids < 8) {
    std::fprintf(stderr, "usage: slm_bits MODEL N_PROMPTS MAX_IDS, at least 8\n");
    return 2;
  }
  if (const Status status = Run(argv[1], n_prompts, max_ids); !status) {
    std::fprintf(stderr, "%s\n", status.error().ToString().c_str());
    return 3;
  }
  return 0;
}
