// Conversion end to end on small sources: same bytes twice, ledger complete, every dtype, shards, ties
// (MAP-01, MAP-02, MAP-03), and the independent inspector on the same files.
#include "convert/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "chat/analysis.h"
#include "chat/template.h"
#include "convert/convert_test_source.h"
#include "model/artifact_check.h"
#include "slm_file/inspection.h"
#include "tests/support/slm_forge.h"
#include "tokenizer/tokenizer.h"

namespace slm::convert {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Exit status of the independent inspector; its output goes to `out_path`.
int Inspect(const std::string& arguments, const std::string& out_path) {
  const std::string command = "python3 " SLM_SOURCE_DIR "/independent/slm_inspect.py " + arguments + " >" +
                              out_path + " 2>" + out_path + ".err";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Files that the independent inspector must refuse with these codes and offsets; one run for all.
class RefusalBatch {
 public:
  explicit RefusalBatch(std::string directory) : directory_(std::move(directory)) {}
  void Add(ByteSpan file, const std::string& refusal) {
    const std::string path = directory_ + "/bad" + std::to_string(wanted_.size()) + ".slm";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
    arguments_ += " " + path;
    wanted_.push_back(path + ": error " + refusal + ":");
  }
  void Check() {
    EXPECT_EQ(Inspect("--check" + arguments_, directory_ + "/check.txt"), 3);
    std::ifstream lines(directory_ + "/check.txt");
    std::string line;
    for (const std::string& wanted : wanted_) {
      ASSERT_TRUE(std::getline(lines, line)) << ReadFile(directory_ + "/check.txt.err");
      EXPECT_TRUE(line.starts_with(wanted)) << wanted << " / " << line;
    }
  }

 private:
  std::string directory_, arguments_;
  std::vector<std::string> wanted_;
};

struct Variant {
  const char* name;
  test::TinyOptions options;
};

class ConvertVariants : public ::testing::TestWithParam<Variant> {};

TEST_P(ConvertVariants, SameBytesTwiceAndRebuiltIndependently) {
  const std::string directory = test::FreshDirectory(std::string("convert-") + GetParam().name);
  test::TinySource tiny(GetParam().options);
  tiny.Write(directory + "/source");
  const auto files = tiny.Files();
  const auto first = Convert(SourceFromFiles(files), {}, directory + "/1.slm");
  ASSERT_TRUE(first.has_value()) << first.error().ToString();
  const auto second = Convert(SourceFromFiles(files), {}, directory + "/2.slm");
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(ReadFile(directory + "/1.slm"), ReadFile(directory + "/2.slm"));
  EXPECT_EQ(first->artifact_node, second->artifact_node);

  const auto artifact = Artifact::OpenFile(directory + "/1.slm", Verify::kAllChunks);
  ASSERT_TRUE(artifact.has_value()) << artifact.error().ToString();
  EXPECT_EQ((*artifact)->root(), first->root);
  const auto config = ConfigFromCbor((*artifact)->config());
  ASSERT_TRUE(config.has_value()) << config.error().ToString();
  EXPECT_EQ(*config, first->config.config);

  // Element (row, k) of every stored matrix against the source.
  for (const TensorSpec& spec : LlamaTensors(*config)) {
    const TensorEntry* entry = (*artifact)->Find(spec.name);
    ASSERT_NE(entry, nullptr) << spec.name;
    if (spec.alias_of) {
      EXPECT_TRUE(entry->alias_of.has_value());
      continue;
    }
    const test::TinyTensor& source = tiny.Tensor(spec.source_name);
    const ByteSpan stored = (*artifact)->TensorBytes(*entry);
    const uint64_t element = DTypeSize(entry->dtype);
    const uint64_t cols = spec.shape.size() == 2 ? spec.shape[1] : 1;
    for (uint64_t row = 0; row < spec.shape[0]; ++row) {
      for (uint64_t k = 0; k < cols; ++k) {
        const uint64_t at =
            spec.layout == Layout::kRows16 ? (row / 16) * 16 * cols + k * 16 + row % 16 : row * cols + k;
        ASSERT_TRUE(std::equal(&stored[at * element], &stored[at * element] + element,
                               &source.bytes[(row * cols + k) * element]))
            << spec.name << " row " << row << " column " << k;
      }
    }
  }

  // A second implementation prints the same JSON and rebuilds every tensor from the source alone.
  ASSERT_EQ(Inspect(directory + "/1.slm", directory + "/inspect.json"), 0)
      << ReadFile(directory + "/inspect.json.err");
  EXPECT_EQ(ReadFile(directory + "/inspect.json"), InspectionJson(**artifact) + "\n");
  ASSERT_EQ(Inspect(directory + "/1.slm --rebuild " + directory + "/source", directory + "/rebuild.txt"), 0)
      << ReadFile(directory + "/rebuild.txt.err");
  EXPECT_EQ(ReadFile(directory + "/rebuild.txt"),
            std::to_string((*artifact)->tensors().size()) + " tensors rebuilt from the source, all equal\n");
}

INSTANTIATE_TEST_SUITE_P(
    All, ConvertVariants,
    ::testing::Values(Variant{"tied-f32", {}}, Variant{"untied-f32", {.tied = false}},
                      Variant{"bf16", {.dtype = "BF16"}}, Variant{"f16", {.tied = false, .dtype = "F16"}},
                      Variant{"shards", {.n_shards = 3}},
                      Variant{"biases", {.attention_bias = true, .mlp_bias = true, .activation = "gelu"}},
                      Variant{"mha", {.hidden_size = 16, .n_heads = 2, .n_kv_heads = 2, .head_dim = 6}}),
    [](const auto& variant) {
      std::string name = variant.param.name;
      std::erase(name, '-');
      return name;
    });

TEST(Convert, RebuildFindsAChangedWeight) {
  const std::string directory = test::FreshDirectory("convert-rebuild");
  test::TinySource tiny;
  const auto files = tiny.Files();
  ASSERT_TRUE(Convert(SourceFromFiles(files), {}, directory + "/1.slm").has_value());
  // Another weight in a file whose hashes are all right: only the lineage can tell.
  const std::string text = ReadFile(directory + "/1.slm");
  const Bytes file(text.begin(), text.end());
  const cbor::Map manifest = test::ManifestOf(file);
  Bytes data = test::DataOf(file);
  const cbor::Array& blobs = *manifest.Find("blobs")->AsArray();
  const cbor::Map& last = *blobs.back().AsMap();
  const uint64_t offset = *last.Find("offset")->AsUint(), size = *last.Find("size")->AsUint();
  data[offset] ^= 1;
  const cbor::Value hash(Sha256Of(ByteSpan(data).subspan(offset, size)));
  const cbor::Value edited =
      test::Edited(cbor::Value(manifest), {"blobs", std::to_string(blobs.size() - 1), "sha256"}, &hash);
  const Bytes forged = test::ForgeSlm(cbor::Encode(edited), data);
  std::ofstream(directory + "/2.slm", std::ios::binary)
      .write(reinterpret_cast<const char*>(forged.data()), static_cast<std::streamsize>(forged.size()));
  tiny.Write(directory + "/source");
  EXPECT_EQ(Inspect(directory + "/2.slm", directory + "/out"), 0);
  EXPECT_EQ(Inspect(directory + "/2.slm --rebuild " + directory + "/source", directory + "/out"), 3);
  EXPECT_NE(ReadFile(directory + "/out.err").find("SLM-LINEAGE"), std::string::npos);
}

TEST(Convert, BothInspectorsRefuseTheSameDamage) {
  const std::string directory = test::FreshDirectory("convert-damage");
  test::TinySource tiny(test::TinyOptions{.n_layers = 1});
  const auto files = tiny.Files();
  ASSERT_TRUE(Convert(SourceFromFiles(files), {}, directory + "/1.slm").has_value());
  RefusalBatch batch(directory);
  const std::string good = ReadFile(directory + "/1.slm");
  const auto table = LoadLe<uint64_t>(AsBytes(good).data() + 40);
  const auto data = LoadLe<uint64_t>(AsBytes(good).data() + 56);
  for (const uint64_t at :
       {uint64_t{0}, uint64_t{8}, uint64_t{16}, uint64_t{30}, uint64_t{40}, uint64_t{76}, uint64_t{100},
        uint64_t{150}, uint64_t{184}, uint64_t{190}, uint64_t{192}, uint64_t{5000}, table, table + 40,
        data - 1, data, data + 4000, uint64_t{good.size() - 1}}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    const auto opened = Artifact::FromBytes(Bytes(bad.begin(), bad.end()), Verify::kAllChunks);
    ASSERT_FALSE(opened.has_value()) << at;
    batch.Add(AsBytes(bad), opened.error().CodeText() + " at " + std::to_string(*opened.error().byte_offset));
  }
  batch.Check();
}

// One value of the manifest replaced, every hash made right.
TEST(Convert, BothInspectorsRefuseTheSameManifests) {
  using cbor::Array;
  using cbor::Map;
  using Path = std::vector<std::string>;
  const std::string directory = test::FreshDirectory("convert-manifests");
  test::TinySource tiny(test::TinyOptions{.n_layers = 1});
  const auto files = tiny.Files();
  ASSERT_TRUE(Convert(SourceFromFiles(files), {}, directory + "/1.slm").has_value());
  const std::string text = ReadFile(directory + "/1.slm");
  const Bytes good(text.begin(), text.end());
  const cbor::Value manifest(test::ManifestOf(good));
  const Bytes data = test::DataOf(good);
  const std::vector<std::pair<Path, cbor::Value>> edits = {
      {{"schema"}, "slm.manifest.v2"},
      {{"surprise"}, 1},
      {{"license"}, Map{}},
      {{"license", "spdx"}, cbor::Value()},
      {{"required_features"}, Array{"rows16", "q4"}},
      {{"quant_profiles"}, Array{1}},
      {{"ext"}, Map{{"x", Map{{"critical", true}, {"data", Bytes{}}}}}},
      {{"source", "files", "1", "path"}, Bytes{'A'}},
      {{"source", "acquisition"}, Bytes{1}},
      {{"blobs", "0", "kind"}, "notes"},
      {{"blobs", "0", "kind"}, "model-card"},
      {{"blobs", "1", "offset"}, 1},
      {{"blobs", "1", "offset"}, 0},
      {{"blobs", "1", "size"}, uint64_t{1} << 40},
      {{"tensors"}, Array{}},
      {{"tensors", "1", "name"}, ""},
      {{"tensors", "1", "name"}, "embed.weight"},
      {{"tensors", "1", "layout"}, "rows8"},
      {{"tensors", "1", "dtype"}, "q8"},
      {{"tensors", "1", "shape"}, Array{3}},
      {{"tensors", "1", "physical"}, Array{0}},
      {{"tensors", "1", "blob"}, 0},
      {{"tensors", "1", "blob"}, 1000},
      {{"tensors", "1", "alias_of"}, 0},
      {{"tensors", "1", "source"}, Array{}},
      {{"tensors", "1", "transforms"}, Array{Map{{"op", "transpose"}}}},
      {{"tensors", "1", "transforms"}, Array{Map{{"op", "identity"}, {"x", 1}}}},
      {{"tensors", "1", "source", "0", "end"}, uint64_t{1} << 40},
      {{"omitted"}, Array{Map{{"file", 0}}}},
      {{"config"}, Map{}},
  };
  RefusalBatch batch(directory);
  for (const auto& [path, value] : edits) {
    const Bytes bad = test::ForgeSlm(cbor::Encode(test::Edited(manifest, path, &value)), data);
    const auto opened = Artifact::FromBytes(bad, Verify::kAllChunks);
    ASSERT_FALSE(opened.has_value()) << path.back();
    const uint64_t at =
        192 + cbor::OffsetOf(cbor::Encode(cbor::Value(test::ManifestOf(bad))), opened.error().field);
    EXPECT_EQ(opened.error().byte_offset, at) << opened.error().ToString();
    batch.Add(bad, std::string(Info(opened.error().code).name) + " at " + std::to_string(at));
  }
  batch.Check();
}

using Edits = std::vector<std::pair<std::vector<std::string>, cbor::Value>>;

Bytes F64(double value) {
  Bytes bytes;
  AppendLe(&bytes, std::bit_cast<uint64_t>(value));
  return bytes;
}
Bytes F32(float value) {
  Bytes bytes;
  AppendLe(&bytes, std::bit_cast<uint32_t>(value));
  return bytes;
}

// CFG-01, MAP-01, MAP-04: a file of the right form, every hash right, whose parts contradict each other.
// Both readers refuse each with the same code at the same byte.
TEST(Convert, BothInspectorsRefuseTheSameContradictions) {
  using cbor::Array;
  using cbor::Map;
  using cbor::Value;
  const std::string directory = test::FreshDirectory("convert-contradictions");
  test::TinySource tiny;
  const auto files = tiny.Files();
  ASSERT_TRUE(Convert(SourceFromFiles(files), {}, directory + "/1.slm").has_value());
  const std::string text = ReadFile(directory + "/1.slm");
  const Bytes good(text.begin(), text.end());
  const Value manifest(test::ManifestOf(good));
  const Bytes data = test::DataOf(good);
  const Array& tensors = *manifest.AsMap()->Find("tensors")->AsArray();
  const auto index = [&](std::string_view name) -> std::string {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (*tensors[i].AsMap()->Find("name")->AsTextString() == name) return std::to_string(i);
    }
    return "";
  };
  const std::string head = index("head.weight"), norm = index("final_norm.weight"),
                    q = index("layers.1.attn.q.weight"), embed = index("embed.weight");
  struct Case {
    Edits edits;
    std::string code, field;
  };
  const std::vector<Case> cases = {
      {{{{"blobs", "0", "kind"}, "tensor"}}, "SLM-LAYOUT", "blobs[1]"},  // a text behind a tensor
      {{{{"config", "n_layers"}, 3}}, "MAP-MISSING", "tensors"},
      {{{{"config", "n_layers"}, 1}}, "MAP-LAYER", "tensors[" + index("layers.1.attn.k.weight") + "].layer"},
      {{{{"config", "n_layers"}, uint64_t{1} << 40}}, "SLM-SCHEMA/SCHEMA-VALUE", "config.n_layers"},
      {{{{"config", "hidden_size"}, 32}}, "MAP-SHAPE", "tensors[" + embed + "].shape"},
      {{{{"config", "hidden_size"}, 0}}, "SLM-SCHEMA/SCHEMA-VALUE", "config.hidden_size"},
      {{{{"config", "n_heads"}, 0}}, "SLM-SCHEMA/SCHEMA-VALUE", "config.n_heads"},
      {{{{"config", "head_dim"}, 7}}, "SLM-SCHEMA/SCHEMA-VALUE", "config.rope_dim"},
      {{{{"config", "vocab_size"}, 300}, {{"config", "padded_vocab_size"}, 300}},
       "CFG-VOCAB-SHAPE",
       "tensors[" + embed + "].shape"},
      {{{{"config", "tie_word_embeddings"}, false}}, "CFG-TIED", "tensors[" + head + "].alias_of"},
      {{{{"config", "q_bias"}, true}}, "MAP-MISSING", "tensors"},
      {{{{"config", "n_kv_heads"}, 4}},
       "MAP-SHAPE",
       "tensors[" + index("layers.0.attn.k.weight") + "].shape"},
      {{{{"config", "schema"}, "slm.effective-config.v2"}}, "SLM-SCHEMA/SCHEMA-VALUE", "config.schema"},
      {{{{"config", "numeric_profile"}, "exact-v2"}}, "SLM-SCHEMA/SCHEMA-VALUE", "config.numeric_profile"},
      {{{{"config", "surprise"}, 1}}, "SLM-SCHEMA/SCHEMA-UNKNOWN-KEY", "config.surprise"},
      {{{{"config", "activation"}, "gelu"}}, "SLM-SCHEMA/SCHEMA-VALUE", "config.activation_form"},
      {{{{"config", "norm_eps"}, F64(0)}, {{"config", "norm_eps_f32"}, F32(0)}},
       "SLM-SCHEMA/SCHEMA-VALUE",
       "config.norm_eps_f32"},
      {{{{"config", "norm_eps"}, F64(HUGE_VAL)}}, "SLM-SCHEMA/SCHEMA-VALUE", "config.norm_eps"},
      {{{{"config", "rope_theta"}, F64(20000)}}, "CFG-ROPE", "config.rope_inv_freq"},
      {{{{"config", "rope_theta"}, F64(-1)}}, "CFG-ROPE", "config.rope_theta"},
      {{{{"config", "rope_factor"}, F64(2)}}, "SLM-SCHEMA/SCHEMA-VALUE", "config.rope_factor"},
      {{{{"config", "attention_scale"}, F64(0.25)}, {{"config", "attention_scale_f32"}, F32(0.25f)}},
       "CFG-SHAPE",
       "config.attention_scale"},
      {{{{"config", "trained_context"}, 32}}, "CFG-ROPE", "config.trained_context"},
      {{{{"config", "eos_token_ids"}, Array{5, 5}}}, "SLM-SCHEMA/SCHEMA-VALUE", "config.eos_token_ids"},
      {{{{"required_features"}, Array{}}}, "SLM-FEATURE", "tensors[" + embed + "].layout"},
      {{{{"required_features"}, Array{"rows16", "rows16"}}}, "SLM-FEATURE", "required_features[1]"},
      {{{{"family_profile", "version"}, 2}}, "SLM-VERSION", "family_profile.version"},
      {{{{"family_profile", "family"}, "gemma"}}, "CFG-ARCHITECTURE", "family_profile.family"},
      {{{{"tensors", q, "role"}, "attn.k.weight"}}, "SLM-SCHEMA", "tensors[" + q + "].role"},
      {{{{"tensors", q, "layer"}, 0}}, "SLM-SCHEMA", "tensors[" + q + "].layer"},
      {{{{"tensors", norm, "layer"}, 0}}, "SLM-SCHEMA", "tensors[" + norm + "].layer"},
      {{{{"tensors", norm, "name"}, "final_nosm.weight"}}, "MAP-UNCONSUMED", "tensors[" + norm + "].name"},
      {{{{"tensors", head, "alias_of"}, std::stoull(norm)}}, "SLM-ALIAS", "tensors[" + head + "].alias_of"},
      {{{{"tensors", q, "source", "0", "dtype"}, "F16"}}, "SLM-LINEAGE", "tensors[" + q + "].source[0]"},
      {{{{"tensors", q, "source", "0", "name"}, "x"}}, "SLM-LINEAGE", "tensors[" + q + "].source[0]"},
      {{{{"tensors", q, "source", "0", "shape"}, Array{24, 32}}},
       "SLM-LINEAGE",
       "tensors[" + q + "].source[0]"},
      {{{{"tensors", q, "source", "0", "end"}, 0}, {{"tensors", q, "source", "0", "begin"}, 0}},
       "SLM-LINEAGE",
       "tensors[" + q + "].source[0]"},
      {{{{"tensors", q, "transforms", "0", "rows"}, 31}}, "SLM-LINEAGE", "tensors[" + q + "].transforms"},
      {{{{"tensors", q, "transforms"}, Array{Map{{"op", "identity"}}}}},
       "SLM-LINEAGE",
       "tensors[" + q + "].transforms"},
  };
  RefusalBatch batch(directory);
  for (const Case& bad_case : cases) {
    Value edited = manifest;
    for (const auto& [path, value] : bad_case.edits) edited = test::Edited(edited, path, &value);
    const Bytes encoded = cbor::Encode(edited);
    const Bytes bad = test::ForgeSlm(encoded, data);
    const auto opened = Artifact::FromBytes(bad, Verify::kAllChunks);
    const Error error = [&] {
      if (!opened) return opened.error();
      const auto checked = CheckModelArtifact(**opened);
      EXPECT_FALSE(checked.has_value()) << bad_case.field;
      return checked ? Error{} : checked.error();
    }();
    EXPECT_EQ(error.CodeText(), bad_case.code) << error.ToString();
    EXPECT_EQ(error.field, bad_case.field) << error.ToString();
    const uint64_t at = 192 + cbor::OffsetOf(encoded, error.field);
    EXPECT_EQ(error.byte_offset, at);
    batch.Add(bad, std::string(Info(error.code).name) + " at " + std::to_string(at));
  }
  batch.Check();
}

// Both readers compute the frequencies of every rope type by themselves, and agree.
TEST(Convert, BothReadersAcceptEveryRopeType) {
  for (const char* scaling :
       {R"({"type":"linear","factor":2.0})", R"({"type":"dynamic","factor":3.0})",
        R"({"type":"yarn","factor":4.0,"original_max_position_embeddings":16,"beta_fast":8})",
        R"({"type":"yarn","factor":2.5,"truncate":false,"attention_factor":1.25})",
        R"({"type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,)"
        R"("original_max_position_embeddings":32})"}) {
    const std::string directory = test::FreshDirectory("convert-rope");
    test::TinySource tiny({.n_layers = 1});
    tiny.config["rope_scaling"] = scaling;
    const auto files = tiny.Files();
    const auto made = Convert(SourceFromFiles(files), {}, directory + "/1.slm");
    ASSERT_TRUE(made.has_value()) << made.error().ToString();
    const auto artifact = Artifact::OpenFile(directory + "/1.slm", Verify::kAllChunks);
    const auto checked = CheckModelArtifact(**artifact);
    EXPECT_TRUE(checked.has_value()) << scaling << checked.error().ToString();
    EXPECT_EQ(Inspect(directory + "/1.slm", directory + "/out"), 0)
        << scaling << ReadFile(directory + "/out.err");
  }
}

TEST(Convert, TextBlobsAndNodes) {
  const std::string directory = test::FreshDirectory("convert-blobs");
  test::TinySource tiny;
  tiny.extra_files["LICENSE"] = "MIT License\n";
  const auto files = tiny.Files();
  const auto result = Convert(SourceFromFiles(files), {}, directory + "/1.slm");
  ASSERT_TRUE(result.has_value()) << result.error().ToString();
  const auto artifact = Artifact::OpenFile(directory + "/1.slm", Verify::kAllChunks);
  ASSERT_TRUE(artifact.has_value());
  EXPECT_EQ(AsText(*(*artifact)->Blob("tokenizer-json")), files.at("tokenizer.json"));
  EXPECT_EQ(AsText(*(*artifact)->Blob("template-source")), files.at("chat_template.jinja"));
  EXPECT_EQ(AsText(*(*artifact)->Blob("license")), "MIT License\n");
  const auto compiled = chat::Template::Load(*(*artifact)->Blob("template-ir"));
  EXPECT_TRUE(compiled.has_value());
  ASSERT_EQ(result->nodes.size(), 7u);
  const Node& artifact_node = result->nodes.back();
  EXPECT_EQ(artifact_node.type, "artifact");
  EXPECT_EQ(NodeId(artifact_node), result->artifact_node);
  // TPL-03: what the template declares, beside it.
  const Node& report = result->nodes[5];
  ASSERT_NE(report.Child("template"), nullptr);
  EXPECT_EQ(*report.Child("template"), NodeId(result->nodes[4]));
  EXPECT_EQ(*report.metadata.Find("report")->AsTextString(), chat::AnalysisJson(chat::Analyze(*compiled)));
  for (size_t i = 0; i + 2 < result->nodes.size(); ++i) {
    const Hash256* child = artifact_node.Child(result->nodes[i].type);
    ASSERT_NE(child, nullptr) << result->nodes[i].type;
    EXPECT_EQ(*child, NodeId(result->nodes[i]));
  }
}

Error RefusalOf(const test::TinySource& tiny) {
  const auto files = tiny.Files();
  const auto result = Convert(SourceFromFiles(files), {}, test::FreshDirectory("convert-bad") + "/a.slm");
  EXPECT_FALSE(result.has_value());
  return result ? Error{} : result.error();
}

// LVL-03: the artifact holds the declaration that a person chose, and says so.
class ChoiceTest : public ::testing::Test {
 protected:
  Result<ConvertResult> Run(const test::TinySource& tiny, std::string code, std::string field,
                            std::string ref) {
    files_ = tiny.Files();
    Options options;
    options.choices = {{std::move(code), std::move(field), std::move(ref), std::string(64, 'c')}};
    path_ = test::FreshDirectory("convert-choice") + "/a.slm";
    return Convert(SourceFromFiles(files_), options, path_);
  }
  std::string Template() {
    const auto artifact = Artifact::OpenFile(path_, Verify::kAllChunks);
    EXPECT_TRUE(artifact.has_value());
    return std::string(AsText(*(*artifact)->Blob("template-source")));
  }
  std::map<std::string, std::string> files_;
  std::string path_;
};

TEST_F(ChoiceTest, Lvl03Templates) {
  test::TinySource tiny;
  tiny.extra_files["chat_template.jinja"] = "JINJA{{ messages }}";
  tiny.extra_files["chat_template.json"] = R"({"chat_template":"JSON{{ messages }}"})";
  tiny.extra_files["tokenizer_config.json"] =
      R"({"chat_template":[{"name":"default","template":"LIST{{ messages }}"},{"name":"tool_use","template":"TOOLS"}]})";
  tiny.extra_files["additional_chat_templates/rag.jinja"] = "RAG";
  tiny.extra_files["processor_config.json"] = R"({"chat_template":"PROCESSOR"})";
  tiny.extra_files["preprocessor_config.json"] = R"({"chat_template":"PREPROCESSOR"})";
  for (const auto& [ref, text] :
       {std::pair{"chat_template.jinja", "JINJA{{ messages }}"},
        std::pair{"chat_template.json#$.chat_template", "JSON{{ messages }}"},
        std::pair{"tokenizer_config.json#$.chat_template[0].template", "LIST{{ messages }}"},
        std::pair{"tokenizer_config.json#$.chat_template[1].template", "TOOLS"},
        std::pair{"processor_config.json#$.chat_template", "PROCESSOR"},
        std::pair{"preprocessor_config.json#$.chat_template", "PREPROCESSOR"},
        std::pair{"additional_chat_templates/rag.jinja", "RAG"}}) {
    const auto result = Run(tiny, "TPL-AMBIGUOUS", "chat_template", ref);
    ASSERT_TRUE(result.has_value()) << result.error().ToString();
    EXPECT_EQ(Template(), text);
    // The choice, and each template by name that is not carried.
    bool has_choice = false;
    size_t n_left_out = 0;
    for (const AcceptedConflict& row : result->config.accepted_conflicts) {
      has_choice = has_choice || row.first == std::string(ref) + " holds";
      n_left_out += row.field.starts_with("chat_template.") ? 1U : 0U;
    }
    EXPECT_TRUE(has_choice);
    EXPECT_GE(n_left_out, 2u);
  }
  EXPECT_EQ(Run(tiny, "TPL-AMBIGUOUS", "chat_template", "nowhere").error().code, ErrorCode::kDecisionBad);
  // A newline at the end of the file is no difference.
  test::TinySource same(test::TinyOptions{.chat_template = false});
  same.extra_files["chat_template.jinja"] = "X\n";
  same.extra_files["tokenizer_config.json"] = R"({"chat_template":"X"})";
  EXPECT_TRUE(Convert(SourceFromFiles(files_ = same.Files()), {}, path_).has_value());
}

TEST_F(ChoiceTest, Lvl03Tokens) {
  test::TinySource tiny;
  tiny.config["eos_token_id"] = "1";
  tiny.config["bos_token_id"] = "1";
  tiny.generation_config = {{"eos_token_id", "[2]"}, {"bos_token_id", "2"}, {"pad_token_id", "2"}};
  tiny.extra_files["tokenizer_config.json"] =
      R"({"eos_token":"!","bos_token":{"content":"!"},"pad_token":"!"})";
  const auto files = tiny.Files();
  const auto tokenizer = tokenizer::Tokenizer::FromJson(files.at("tokenizer.json"));
  ASSERT_TRUE(tokenizer.has_value());
  const uint64_t id = (*tokenizer)->TokenToId("!").value();
  using Ids = std::vector<uint64_t>;
  for (const auto& [ref, ids] : {std::pair{"config.json#$.eos_token_id", Ids{1}},
                                 std::pair{"generation_config.json#$.eos_token_id", Ids{2}},
                                 std::pair{"tokenizer_config.json#$.eos_token", Ids{id}}}) {
    // BOS contradicts itself too, so its conflict needs its own statement.
    test::TinySource only = tiny;
    only.generation_config.erase("bos_token_id");
    const auto result = Run(only, "CFG-CONFLICT-EOS", "eos_token_id", ref);
    ASSERT_TRUE(result.has_value()) << result.error().ToString();
    EXPECT_EQ(result->config.config.eos_token_ids, ids) << ref;
    EXPECT_EQ(result->config.accepted_conflicts.size(), 1u) << ref;
  }
  tiny.generation_config["eos_token_id"] = "1";
  for (const auto& [ref, wanted] : {std::pair{"config.json#$.bos_token_id", uint64_t{1}},
                                    std::pair{"generation_config.json#$.bos_token_id", uint64_t{2}},
                                    std::pair{"tokenizer_config.json#$.bos_token.content", id}}) {
    const auto result = Run(tiny, "CFG-CONFLICT-BOS", "bos_token_id", ref);
    ASSERT_TRUE(result.has_value()) << result.error().ToString();
    EXPECT_EQ(result->config.config.bos_token_id, wanted) << ref;
    for (const FieldRecord& record : result->config.records) {
      if (record.name != "bos_token_id") continue;
      EXPECT_EQ(record.choice, std::to_string(wanted));
      EXPECT_EQ(record.pinned.find("a person's statement") != std::string::npos, wanted != 1)
          << record.pinned;
    }
  }
  tiny.generation_config = {};
  const auto pad = Run(tiny, "CFG-CONFLICT-PAD", "pad_token_id", "tokenizer_config.json#$.pad_token");
  ASSERT_TRUE(pad.has_value()) << pad.error().ToString();
  EXPECT_EQ(pad->config.config.pad_token_id, id);
  EXPECT_EQ(Run(tiny, "CFG-CONFLICT-PAD", "pad_token_id", "tokenizer_config.json#$.nothing").error().code,
            ErrorCode::kDecisionBad);
}

TEST_F(ChoiceTest, Lvl03TiedFlag) {
  test::TinySource tiny;  // tied, and a head of its own
  test::TinyTensor head = tiny.Tensor("model.embed_tokens.weight");
  head.bytes[0] ^= 1;
  tiny.Add("lm_head.weight", head.dtype, head.shape, head.bytes);
  EXPECT_EQ(RefusalOf(tiny).code, ErrorCode::kMapTiedDiffer);
  const auto flag = Run(tiny, "CFG-TIED", "tie_word_embeddings", "config.json#$.tie_word_embeddings");
  ASSERT_TRUE(flag.has_value()) << flag.error().ToString();
  EXPECT_TRUE(flag->config.config.tie_word_embeddings);
  EXPECT_EQ(flag->n_omitted, 1u);
  EXPECT_EQ(flag->n_aliases, 1u);
  EXPECT_EQ(Inspect(path_, path_ + ".json"), 0);
  const auto tensors = Run(tiny, "CFG-TIED", "tie_word_embeddings", "model.safetensors#lm_head.weight");
  ASSERT_TRUE(tensors.has_value()) << tensors.error().ToString();
  EXPECT_FALSE(tensors->config.config.tie_word_embeddings);
  EXPECT_EQ(tensors->n_omitted, 0u);
  EXPECT_EQ(tensors->n_aliases, 0u);
}

TEST(Convert, RefusesContradictoryFiles) {
  test::TinySource two_templates;
  two_templates.extra_files["tokenizer_config.json"] = R"({"chat_template": "{{ messages }}"})";
  EXPECT_EQ(RefusalOf(two_templates).code, ErrorCode::kTplAmbiguous);
  test::TinySource no_default(test::TinyOptions{.chat_template = false});
  no_default.extra_files["tokenizer_config.json"] =
      R"({"chat_template": [{"name": "a", "template": "x"}, {"name": "b", "template": "y"}]})";
  EXPECT_EQ(RefusalOf(no_default).code, ErrorCode::kTplAmbiguous);
  // A further template is not dropped silently: with tools the pinned source takes tool_use.
  test::TinySource named;
  named.extra_files["additional_chat_templates/tool_use.jinja"] = "x";
  EXPECT_EQ(RefusalOf(named).code, ErrorCode::kTplAmbiguous);
  EXPECT_EQ(RefusalOf(named).file, "additional_chat_templates/tool_use.jinja");
  test::TinySource forbidden;
  forbidden.extra_files["chat_template.jinja"] = "{% include 'x' %}";
  EXPECT_EQ(RefusalOf(forbidden).file, "chat_template.jinja");
  test::TinySource both(test::TinyOptions{.n_shards = 2});
  both.extra_files["model.safetensors"] = test::SafetensorsBytes(both.tensors);
  EXPECT_EQ(RefusalOf(both).code, ErrorCode::kIxConflict);
  for (const auto& chosen :
       {std::vector<std::string>{"model.safetensors"},
        std::vector<std::string>{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}}) {
    const auto files = both.Files();
    Source source = SourceFromFiles(files);
    source.weights = chosen;
    EXPECT_TRUE(Convert(source, {}, test::FreshDirectory("convert-chosen") + "/a.slm").has_value());
  }
  test::TinySource small_vocab(test::TinyOptions{.vocab_size = 260});
  EXPECT_EQ(RefusalOf(small_vocab).code, ErrorCode::kCfgVocabShape);
}

TEST(Convert, Acq14StoredBytesAreHashedAgain) {
  const test::TinySource tiny;
  const auto files = tiny.Files();
  Source source = SourceFromFiles(files);
  for (SourceFile& file : source.files) {
    if (file.path == "config.json") file.blob[0] ^= 1;
  }
  const auto result = Convert(source, {}, test::FreshDirectory("convert-hash") + "/a.slm");
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kFsckHash);
  EXPECT_EQ(result.error().field, "config.json");
}

// The weights are hashed beside the conversion: whatever it makes of changed bytes, the hash is what is
// reported, and no file appears.
TEST(Convert, Acq14ChangedWeightsAreRefusedWhateverTheyHold) {
  const test::TinySource tiny;
  const std::string weights = "model.safetensors";
  const auto files = tiny.Files();
  const Source acquired = SourceFromFiles(files);
  std::map<std::string, std::string> changed_files;
  changed_files["a finite value"] = files.at(weights);
  changed_files["a finite value"].back() ^= 1;
  changed_files["a NaN"] = files.at(weights);
  changed_files["a NaN"].replace(files.at(weights).size() - 4, 4, "\x00\x00\xc0\x7f", 4);
  changed_files["no header"] = std::string(files.at(weights).size(), 'x');
  changed_files["a shorter file"] = files.at(weights).substr(0, files.at(weights).size() - 1);
  for (const auto& [what, contents] : changed_files) {
    SCOPED_TRACE(what);
    auto stored = files;
    stored[weights] = contents;
    Source source = SourceFromFiles(stored);
    source.files = acquired.files;
    const std::string directory = test::FreshDirectory("convert-weights-hash");
    const auto result = Convert(source, {}, directory + "/a.slm");
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kFsckHash) << result.error().ToString();
    EXPECT_EQ(result.error().file, weights);
    EXPECT_TRUE(std::filesystem::is_empty(directory));
  }
}

}  // namespace
}  // namespace slm::convert
