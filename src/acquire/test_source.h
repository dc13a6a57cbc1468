// Small sources for tests: a directory that acquires without a question, and ways to break it.
#ifndef SLM_ACQUIRE_TEST_SOURCE_H_
#define SLM_ACQUIRE_TEST_SOURCE_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace slm::acquire {

// A folder that goes away with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "slm_acquire_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  [[nodiscard]] std::string Path(std::string_view name = "") const {
    return name.empty() ? path_ : path_ + "/" + std::string(name);
  }

 private:
  std::string path_;
};

inline void WriteFile(const std::string& path, std::string_view contents) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << contents;
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct TestTensor {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  std::string data;
};

inline std::string Safetensors(const std::vector<TestTensor>& tensors) {
  std::string json = "{";
  std::string data;
  for (const TestTensor& tensor : tensors) {
    std::string shape;
    for (uint64_t dimension : tensor.shape) shape += (shape.empty() ? "" : ",") + std::to_string(dimension);
    json += (json.size() == 1 ? "\"" : ",\"") + tensor.name + "\":{\"dtype\":\"" + tensor.dtype +
            "\",\"shape\":[" + shape + "],\"data_offsets\":[" + std::to_string(data.size()) + "," +
            std::to_string(data.size() + tensor.data.size()) + "]}";
    data += tensor.data;
  }
  json += "}";
  while (json.size() % 8 != 0) json += " ";
  Bytes length;
  AppendLe<uint64_t>(&length, json.size());
  return std::string(AsText(length)) + json + data;
}

inline std::string Zeros(uint64_t elements) {
  return std::string(4 * elements, '\0');
}

inline std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// Four rows in the embedding, ids 0 to 3: <unk> <s> </s> a.
struct TestSource {
  std::string config =
      R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":4,"hidden_size":2,)"
      R"("tie_word_embeddings":true,"bos_token_id":1,"eos_token_id":2})";
  std::string generation_config = R"({"bos_token_id":1,"eos_token_id":2})";
  std::string tokenizer =
      R"({"version":"1.0","added_tokens":[{"id":0,"content":"<unk>"},{"id":1,"content":"<s>"},)"
      R"({"id":2,"content":"</s>"}],)"
      R"("model":{"type":"BPE","unk_token":"<unk>","vocab":{"<unk>":0,"<s>":1,"</s>":2,"a":3},"merges":[]}})";
  std::string tokenizer_config =
      R"({"bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false},"unk_token":"<unk>",)"
      R"("chat_template":"{{ x }}"})";
  std::string card = "---\nlicense: mit\n---\n# Test\n";
  std::string weights = Safetensors({{"model.embed_tokens.weight", "F32", {4, 2}, Zeros(8)}});
  std::vector<std::pair<std::string, std::string>> more;  // further files

  void WriteTo(const std::string& folder) const {
    WriteFile(folder + "/config.json", config);
    WriteFile(folder + "/generation_config.json", generation_config);
    WriteFile(folder + "/tokenizer.json", tokenizer);
    WriteFile(folder + "/tokenizer_config.json", tokenizer_config);
    WriteFile(folder + "/README.md", card);
    if (!weights.empty()) WriteFile(folder + "/model.safetensors", weights);
    for (const auto& [name, contents] : more) WriteFile(folder + "/" + name, contents);
  }
};

}  // namespace slm::acquire

#endif  // SLM_ACQUIRE_TEST_SOURCE_H_
