// Decode and prefill speed of a .slm file, or of random weights in the shape of SmolLM2-135M, on
// one core. Prints one JSON object; the figure by processor time is the one to read on a busy
// machine.
// Usage: slm_decode_bench MODEL.slm|synthetic [scalar|vector] [PROMPT_TOKENS] [NEW_TOKENS]

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>

#include "runtime/generate.h"
#include "runtime/session.h"

namespace {

using namespace slm;
using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

EffectiveConfig SmolLm2Shape() {
  EffectiveConfig config;
  config.family = "llama";
  config.vocab_size = config.padded_vocab_size = 49152;
  config.hidden_size = 576;
  config.intermediate_size = 1536;
  config.n_layers = 30;
  config.n_heads = 9;
  config.n_kv_heads = 3;
  config.head_dim = 64;
  config.tie_word_embeddings = true;
  config.norm_eps_f32 = 1e-5f;
  config.attention_scale_f32 = 0.125f;
  config.rope.dim = 64;
  config.rope.inv_freq.assign(32, 0.01f);
  config.max_positions = 8192;
  return config;
}

// Every matrix of the shape from one pool of random floats, so that it is read from memory as a
// real file is; head and embedding are one tensor.
Result<std::shared_ptr<const Model>> Synthetic() {
  const EffectiveConfig config = SmolLm2Shape();
  SLM_ASSIGN(const Plan plan, BuildPlan(config));
  uint64_t total = 0;
  const auto padded = [](const PlanTensor& tensor) {
    return tensor.shape.size() == 2 ? (tensor.shape[0] + 15) / 16 * 16 * tensor.shape[1] : tensor.shape[0];
  };
  const std::vector<PlanTensor> tensors = PlanTensors(plan);
  for (const PlanTensor& tensor : tensors) total += tensor.name == "head.weight" ? 0 : padded(tensor);
  auto pool = std::make_shared<std::vector<float>>(total);
  uint32_t state = 1;
  for (float& value : *pool) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-35f;
  }
  std::vector<std::pair<std::string, TensorView>> views;
  uint64_t offset = 0;
  for (const PlanTensor& tensor : tensors) {
    const bool is_head = tensor.name == "head.weight";
    const ByteSpan bytes(reinterpret_cast<const uint8_t*>(pool->data() + (is_head ? 0 : offset)),
                         padded(tensor) * sizeof(float));
    views.emplace_back(tensor.name, TensorView{bytes, DType::kF32, tensor.shape, tensor.layout});
    if (!is_head) offset += padded(tensor);
  }
  const TensorLookup lookup = [&](std::string_view name) -> std::optional<TensorView> {
    for (const auto& [key, view] : views) {
      if (key == name) return view;
    }
    return std::nullopt;
  };
  return Model::Create(config, lookup, pool);
}

Result<std::shared_ptr<const Model>> Load(const std::string& name) {
  if (name == "synthetic") return Synthetic();
  SLM_ASSIGN(std::shared_ptr<const Artifact> artifact, Artifact::OpenFile(name, Verify::kHeaderOnly));
  return Model::Load(std::move(artifact));
}

// Of this program alone: getrusage keeps the size that the process had before exec.
Result<double> PeakRssMib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib / 1024.0;
  }
  return Fail(ErrorCode::kIo, "/proc/self/status holds no VmHWM");
}

Status Run(const std::string& name, Kernel kernel, uint64_t n_prompt, uint64_t n_new) {
  const auto load_start = Clock::now();
  SLM_ASSIGN(const std::shared_ptr<const Model> model, Load(name));
  const double load_s = Seconds(load_start);
  SLM_ASSIGN(const std::unique_ptr<Session> session,
             Session::Create(model, {.max_positions = n_prompt + n_new, .kernel = kernel}));
  std::vector<uint32_t> prompt;
  for (uint64_t i = 0; i < n_prompt; ++i)
    prompt.push_back(static_cast<uint32_t>((i * 7919 + 13) % model->plan().vocab_size));
  std::vector<float> logits;
  const auto prefill_start = Clock::now();
  SLM_TRY(session->Prefill(prompt, LogitRows::kLast, &logits, nullptr));
  const double prefill_s = Seconds(prefill_start);
  const auto decode_start = Clock::now();
  const std::clock_t decode_cpu_start = std::clock();
  for (uint64_t i = 0; i < n_new; ++i) {
    const auto id = static_cast<uint32_t>(ops::Argmax(logits));
    SLM_TRY(session->Prefill(std::span(&id, 1), LogitRows::kLast, &logits, nullptr));
  }
  const double decode_s = Seconds(decode_start);
  const double decode_cpu_s = static_cast<double>(std::clock() - decode_cpu_start) / CLOCKS_PER_SEC;
  SLM_ASSIGN(const double peak_rss_mib, PeakRssMib());
  std::printf(
      "{\"kernel\": \"%s\", \"load_ms\": %.2f, \"prompt_tokens\": %llu, \"prefill_tokens_per_s\": %.2f, "
      "\"new_tokens\": %llu, \"decode_tokens_per_s\": %.2f, \"decode_tokens_per_cpu_s\": %.2f, "
      "\"peak_rss_mib\": %.1f}\n",
      std::string(session->kernel_name()).c_str(), load_s * 1e3, static_cast<unsigned long long>(n_prompt),
      static_cast<double>(n_prompt) / prefill_s, static_cast<unsigned long long>(n_new),
      static_cast<double>(n_new) / decode_s, static_cast<double>(n_new) / decode_cpu_s, peak_rss_mib);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(
        stderr, "usage: slm_decode_bench MODEL.slm|synthetic [scalar|vector] [PROMPT_TOKENS] [NEW_TOKENS]\n");
    return 2;
  }
  const Kernel kernel = argc > 2 && std::string(argv[2]) == "vector" ? Kernel::kVector : Kernel::kScalar;
  const uint64_t n_prompt = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 16;
  const uint64_t n_new = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 32;
  if (const Status status = Run(argv[1], kernel, n_prompt, n_new); !status) {
    std::fprintf(stderr, "%s\n", status.error().ToString().c_str());
    return 3;
  }
  return 0;
}
