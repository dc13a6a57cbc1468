// A small llama source in the layout of a Hugging Face repository, for tests: random weights from a
// fixed seed, a byte-level BPE tokenizer of 256 bytes and a few merges, a chat template, a model card.
//
// Change any member before calling Files() or Write(): configuration text, tensors, whole files. The
// same members give the same bytes.
#ifndef SLM_TESTS_SUPPORT_TINY_SOURCE_H_
#define SLM_TESTS_SUPPORT_TINY_SOURCE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace slm::test {

struct TinyTensor {
  std::string name;
  std::string dtype;  // "F32", "BF16", "F16", or any other to provoke a refusal
  std::vector<uint64_t> shape;
  Bytes bytes;
};

struct TinyOptions {
  uint64_t vocab_size = 272;
  uint64_t hidden_size = 24;
  uint64_t intermediate_size = 40;
  uint64_t n_layers = 2;
  uint64_t n_heads = 4;
  uint64_t n_kv_heads = 2;
  uint64_t head_dim = 8;  // free of hidden_size / n_heads
  uint64_t max_positions = 64;
  bool tied = true;
  bool attention_bias = false;
  bool mlp_bias = false;
  std::string activation = "silu";
  std::string dtype = "F32";
  uint64_t n_shards = 1;  // above 1: shards and an index
  uint64_t seed = 1;
  bool chat_template = true;
};

class TinySource {
 public:
  explicit TinySource(const TinyOptions& options = {});

  // Members of config.json: key to JSON text. Edit before Files().
  std::map<std::string, std::string> config;
  std::map<std::string, std::string> generation_config;  // empty: no such file
  std::vector<TinyTensor> tensors;
  // Further files, or replacements of those that Files() makes; path to contents.
  std::map<std::string, std::string> extra_files;

  // The tensor of this name; aborts if there is none.
  [[nodiscard]] TinyTensor& Tensor(const std::string& name);
  void Remove(const std::string& name);
  void Add(std::string name, std::string dtype, std::vector<uint64_t> shape, Bytes bytes);

  // Path to contents, everything included.
  [[nodiscard]] std::map<std::string, std::string> Files() const;
  // Writes Files() into the directory, which is made where absent.
  void Write(const std::string& directory) const;

 private:
  [[nodiscard]] std::string TokenizerJson() const;
  TinyOptions options_;
};

// The bytes of a safetensors file with these tensors, in this order.
[[nodiscard]] std::string SafetensorsBytes(const std::vector<TinyTensor>& tensors);

// An empty directory of the test's own under the build's temporary directory; removed by the caller
// or left for inspection after a failure.
[[nodiscard]] std::string FreshDirectory(const std::string& name);

}  // namespace slm::test

#endif  // SLM_TESTS_SUPPORT_TINY_SOURCE_H_
