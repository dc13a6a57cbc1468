#include "tests/support/tiny_source.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/utf8.h"
#include "codec/json.h"
#include "numeric/float_formats.h"

namespace slm::test {
namespace {

// splitmix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  // Uniform in [-1, 1), 24 bits.
  float Symmetric() { return static_cast<float>(static_cast<int64_t>(Next() >> 40) - (1 << 23)) * 0x1p-23f; }

 private:
  uint64_t state_;
};

Bytes RandomBytes(Random* random, uint64_t n, const std::string& dtype, float scale, float center) {
  Bytes bytes;
  for (uint64_t i = 0; i < n; ++i) {
    const float value = center + scale * random->Symmetric();
    if (dtype == "BF16") {
      AppendLe(&bytes, numeric::F32ToBf16(value));
    } else if (dtype == "F16") {
      AppendLe(&bytes, numeric::F32ToF16(value));
    } else {
      AppendLe(&bytes, std::bit_cast<uint32_t>(value));
    }
  }
  return bytes;
}

std::string Quoted(std::string_view text) {
  std::string out;
  json::AppendQuoted(&out, text);
  return out;
}

std::string ObjectText(const std::map<std::string, std::string>& members) {
  std::string text = "{";
  for (const auto& [key, value] : members) {
    text += (text.size() > 1 ? ",\n  " : "\n  ") + Quoted(key) + ": " + value;
  }
  return text + "\n}\n";
}

// The byte-level alphabet: printable Latin-1 bytes stand for themselves, the others are moved behind
// U+0100 (GPT-2's table).
std::vector<std::string> ByteLetters() {
  std::vector<std::string> letters;
  char32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    std::string letter;
    AppendUtf8(&letter, printable ? static_cast<char32_t>(byte) : next++);
    letters.push_back(std::move(letter));
  }
  return letters;
}

constexpr std::string_view kTemplate =
    "{% for message in messages %}{{ '<|start|>' + message['role'] + '\n' + message['content'] + '<|end|>' + "
    "'\n' "
    "}}{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant\n' }}{% endif %}";

constexpr std::string_view kCard = "---\nlicense: mit\n---\n# Tiny model\n\nRandom weights, for tests.\n";

}  // namespace

TinySource::TinySource(const TinyOptions& options) : options_(options) {
  const std::string head_dim = std::to_string(options.head_dim);
  config = {{"architectures", "[\"LlamaForCausalLM\"]"},
            {"model_type", "\"llama\""},
            {"vocab_size", std::to_string(options.vocab_size)},
            {"hidden_size", std::to_string(options.hidden_size)},
            {"intermediate_size", std::to_string(options.intermediate_size)},
            {"num_hidden_layers", std::to_string(options.n_layers)},
            {"num_attention_heads", std::to_string(options.n_heads)},
            {"num_key_value_heads", std::to_string(options.n_kv_heads)},
            {"head_dim", head_dim},
            {"hidden_act", Quoted(options.activation)},
            {"max_position_embeddings", std::to_string(options.max_positions)},
            {"rms_norm_eps", "1e-05"},
            {"rope_theta", "10000.0"},
            {"tie_word_embeddings", options.tied ? "true" : "false"},
            {"attention_bias", options.attention_bias ? "true" : "false"},
            {"mlp_bias", options.mlp_bias ? "true" : "false"},
            {"torch_dtype", options.dtype == "BF16"  ? "\"bfloat16\""
                            : options.dtype == "F16" ? "\"float16\""
                                                     : "\"float32\""},
            {"bos_token_id", "256"},
            {"eos_token_id", "257"}};
  generation_config = {{"bos_token_id", "256"}, {"eos_token_id", "257"}};
  Random random(options.seed);
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape, float scale, float center) {
    uint64_t n = 1;
    for (const uint64_t size : shape) n *= size;
    Bytes bytes = RandomBytes(&random, n, options.dtype, scale, center);
    tensors.push_back({name, options.dtype, std::move(shape), std::move(bytes)});
  };
  const auto linear = [&](const std::string& name, uint64_t rows, uint64_t cols, bool bias) {
    add(name + ".weight", {rows, cols}, 0.25f, 0);
    if (bias) add(name + ".bias", {rows}, 0.1f, 0);
  };
  const uint64_t q_rows = options.n_heads * options.head_dim;
  const uint64_t kv_rows = options.n_kv_heads * options.head_dim;
  add("model.embed_tokens.weight", {options.vocab_size, options.hidden_size}, 0.5f, 0);
  for (uint64_t layer = 0; layer < options.n_layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    add(prefix + "input_layernorm.weight", {options.hidden_size}, 0.2f, 1);
    linear(prefix + "self_attn.q_proj", q_rows, options.hidden_size, options.attention_bias);
    linear(prefix + "self_attn.k_proj", kv_rows, options.hidden_size, options.attention_bias);
    linear(prefix + "self_attn.v_proj", kv_rows, options.hidden_size, options.attention_bias);
    linear(prefix + "self_attn.o_proj", options.hidden_size, q_rows, options.attention_bias);
    add(prefix + "post_attention_layernorm.weight", {options.hidden_size}, 0.2f, 1);
    linear(prefix + "mlp.gate_proj", options.intermediate_size, options.hidden_size, options.mlp_bias);
    linear(prefix + "mlp.up_proj", options.intermediate_size, options.hidden_size, options.mlp_bias);
    linear(prefix + "mlp.down_proj", options.hidden_size, options.intermediate_size, options.mlp_bias);
  }
  add("model.norm.weight", {options.hidden_size}, 0.2f, 1);
  if (!options.tied) add("lm_head.weight", {options.vocab_size, options.hidden_size}, 0.5f, 0);
}

TinyTensor& TinySource::Tensor(const std::string& name) {
  for (TinyTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  std::abort();
}

void TinySource::Remove(const std::string& name) {
  std::erase_if(tensors, [&](const TinyTensor& tensor) { return tensor.name == name; });
}

void TinySource::Add(std::string name, std::string dtype, std::vector<uint64_t> shape, Bytes bytes) {
  tensors.push_back({std::move(name), std::move(dtype), std::move(shape), std::move(bytes)});
}

std::string TinySource::TokenizerJson() const {
  const std::vector<std::string> letters = ByteLetters();
  std::string vocab;
  for (size_t id = 0; id < letters.size(); ++id)
    vocab += Quoted(letters[id]) + ":" + std::to_string(id) + ",";
  // 256 <|start|>, 257 <|end|> are added tokens; the merges follow.
  const std::vector<std::pair<std::string, std::string>> merges = {
      {"t", "h"}, {"th", "e"}, {"i", "n"}, {"a", "n"}, {letters[' '], "t"}, {"e", "r"}};
  std::string merge_text;
  uint64_t id = 258;
  for (const auto& [left, right] : merges) {
    vocab += Quoted(left + right) + ":" + std::to_string(id++) + ",";
    merge_text += (merge_text.empty() ? "[" : ",[") + Quoted(left) + "," + Quoted(right) + "]";
  }
  vocab += "\"<|start|>\":256,\"<|end|>\":257";
  const auto added = [](std::string_view text, int token) {
    return "{\"id\":" + std::to_string(token) + ",\"content\":" + Quoted(text) +
           ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}";
  };
  return "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[" +
         added("<|start|>", 256) + "," + added("<|end|>", 257) +
         "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
         "\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":null,\"decoder\":{\"type\":"
         "\"ByteLevel\","
         "\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true},\"model\":{\"type\":\"BPE\","
         "\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
         "\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":false,\"vocab\":{" +
         vocab + "},\"merges\":[" + merge_text + "]}}\n";
}

std::map<std::string, std::string> TinySource::Files() const {
  std::map<std::string, std::string> files;
  files["config.json"] = ObjectText(config);
  if (!generation_config.empty()) files["generation_config.json"] = ObjectText(generation_config);
  files["tokenizer.json"] = TokenizerJson();
  files["tokenizer_config.json"] = ObjectText({{"bos_token", "\"<|start|>\""},
                                               {"eos_token", "\"<|end|>\""},
                                               {"tokenizer_class", "\"PreTrainedTokenizerFast\""}});
  if (options_.chat_template) files["chat_template.jinja"] = kTemplate;
  files["README.md"] = kCard;
  if (options_.n_shards <= 1) {
    files["model.safetensors"] = SafetensorsBytes(tensors);
  } else {
    std::vector<std::vector<TinyTensor>> shards(options_.n_shards);
    std::map<std::string, std::string> weight_map;
    uint64_t total = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const size_t shard = i % shards.size();
      std::string name = std::to_string(shard + 1), count = std::to_string(shards.size());
      name.insert(0, 5 - name.size(), '0');
      count.insert(0, 5 - count.size(), '0');
      weight_map[tensors[i].name] = Quoted("model-" + name + "-of-" + count + ".safetensors");
      shards[shard].push_back(tensors[i]);
      total += tensors[i].bytes.size();
      files["model-" + name + "-of-" + count + ".safetensors"] = SafetensorsBytes(shards[shard]);
    }
    files["model.safetensors.index.json"] =
        ObjectText({{"metadata", "{\"total_size\": " + std::to_string(total) + "}"},
                    {"weight_map", ObjectText(weight_map)}});
  }
  for (const auto& [path, contents] : extra_files) files[path] = contents;
  return files;
}

void TinySource::Write(const std::string& directory) const {
  std::filesystem::create_directories(directory);
  for (const auto& [path, contents] : Files()) {
    std::ofstream out(directory + "/" + path, std::ios::binary);
    out.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  }
}

std::string SafetensorsBytes(const std::vector<TinyTensor>& tensors) {
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}";
  uint64_t offset = 0;
  for (const TinyTensor& tensor : tensors) {
    header += "," + Quoted(tensor.name) + ":{\"dtype\":" + Quoted(tensor.dtype) + ",\"shape\":[";
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      header += (i > 0 ? "," : "") + std::to_string(tensor.shape[i]);
    }
    header += "],\"data_offsets\":[" + std::to_string(offset) + "," +
              std::to_string(offset + tensor.bytes.size()) + "]}";
    offset += tensor.bytes.size();
  }
  header += "}";
  while (header.size() % 8 != 0) header += ' ';
  Bytes out;
  AppendLe<uint64_t>(&out, header.size());
  std::string bytes(AsText(out));
  bytes += header;
  for (const TinyTensor& tensor : tensors) bytes += AsText(tensor.bytes);
  return bytes;
}

namespace {

// One folder for each process, gone when it ends: cases run side by side.
struct ProcessFolder {
  ProcessFolder() : path((std::filesystem::temp_directory_path() / "slm-test-XXXXXX").string()) {
    if (mkdtemp(path.data()) == nullptr) std::abort();
  }
  ~ProcessFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  ProcessFolder(const ProcessFolder&) = delete;
  ProcessFolder& operator=(const ProcessFolder&) = delete;
  std::string path;
};

}  // namespace

std::string FreshDirectory(const std::string& name) {
  static const ProcessFolder folder;
  const std::filesystem::path path = std::filesystem::path(folder.path) / name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path.string();
}

}  // namespace slm::test
