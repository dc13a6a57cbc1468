// The C ABI as a C program uses it: handles, refusals, and the answers of the command (TOK-04, RUN-03,
// SLM-CHUNK).
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "capi/slm.h"
#include "codec/json.h"
#include "codec/sha256.h"
#include "convert/convert.h"
#include "convert/convert_test_source.h"
#include "slm_file/artifact.h"
#include "tests/support/tiny_source.h"

namespace {

const uint8_t* Data(const std::string& text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class CapiTest : public ::testing::Test {
 protected:
  // Several chunks: the embedding alone has more than 1 MiB.
  static void SetUpTestSuite() {
    slm::test::TinyOptions options;
    options.hidden_size = 512;
    options.n_heads = 8;
    options.n_kv_heads = 4;
    options.head_dim = 64;
    const slm::test::TinySource tiny(options);
    const auto files = tiny.Files();
    const std::string path = slm::test::FreshDirectory("capi") + "/tiny.slm";
    const auto made = slm::convert::Convert(slm::convert::SourceFromFiles(files), {}, path);
    ASSERT_TRUE(made.has_value()) << made.error().ToString();
    file_ = new std::string(ReadBytes(path));
    ASSERT_GT(file_->size(), size_t{3} << 20);
  }
  static void TearDownTestSuite() { delete file_; }

  void SetUp() override {
    context_ = slm_context_new();
    ASSERT_NE(context_, nullptr);
  }
  void TearDown() override { slm_context_free(context_); }

  std::string Answer() const {
    return {reinterpret_cast<const char*>(slm_result_data(context_)), slm_result_size(context_)};
  }
  std::string Member(const std::string& key) const {
    const auto document = slm::json::Parse(Answer());
    EXPECT_TRUE(document.has_value()) << Answer();
    const auto value = document->root().Find(key);
    return value ? std::string(value->source_text()) : std::string();
  }
  std::string ErrorMember(const std::string& key) const {
    const auto document = slm::json::Parse(Answer());
    const auto error = document->root().Find("error");
    const auto value = error ? error->Find(key) : std::nullopt;
    if (!value) return {};
    return value->is_string() ? std::string(value->string()) : std::string(value->source_text());
  }

  slm_artifact* Filled(const std::string& bytes) {
    slm_artifact* artifact = nullptr;
    EXPECT_EQ(slm_artifact_new(context_, Data(bytes), 192, bytes.size(), &artifact), 0) << Answer();
    std::copy(bytes.begin(), bytes.end(), slm_artifact_bytes(context_, artifact));
    return artifact;
  }
  uint32_t CheckAll(slm_artifact* artifact) {
    EXPECT_EQ(slm_artifact_head(context_, artifact), 0) << Answer();
    uint32_t index = 0;
    while (slm_artifact_chunk(context_, artifact, index, nullptr) == 0) ++index;
    return index;
  }
  slm_model* OpenModel() {
    slm_artifact* artifact = Filled(*file_);
    CheckAll(artifact);
    slm_model* model = nullptr;
    EXPECT_EQ(slm_model_open(context_, artifact, &model), 0) << Answer();
    EXPECT_EQ(slm_artifact_bytes(context_, artifact), nullptr);  // its handle is gone
    return model;
  }
  std::string Ids(slm_model* model, uint32_t chunk, const std::string& record) {
    slm_session* session = nullptr;
    EXPECT_EQ(slm_session_new(context_, model, 0, &session), 0) << Answer();
    slm_run* run = nullptr;
    EXPECT_EQ(slm_run_new(context_, session, Data(record), record.size(), &run), 0) << Answer();
    while (slm_run_prefill(context_, run, chunk) == 0) {
    }
    EXPECT_EQ(ErrorMember("code"), "USAGE");  // fed already
    while (slm_run_next(context_, run) == 0 && Member("done") == "false") {
    }
    EXPECT_EQ(slm_run_finish(context_, run), 0) << Answer();
    const std::string answer = Member("tokens") + Member("kv_sha256");
    slm_session_free(context_, session);
    return answer;
  }

  static std::string* file_;
  slm_context* context_ = nullptr;
};

std::string* CapiTest::file_ = nullptr;

TEST_F(CapiTest, OpensOnlyWhatIsWhollyChecked) {
  slm_artifact* artifact = Filled(*file_);
  slm_model* model = nullptr;
  EXPECT_EQ(slm_artifact_chunk(context_, artifact, 0, nullptr), 1);  // the head comes first
  EXPECT_EQ(slm_artifact_head(context_, artifact), 0) << Answer();
  EXPECT_EQ(slm_artifact_chunk(context_, artifact, 0, nullptr), 0) << Answer();
  EXPECT_EQ(slm_model_open(context_, artifact, &model), 1);
  EXPECT_EQ(ErrorMember("message"), "chunk 1 is not checked yet");
  const uint32_t n_chunks = CheckAll(artifact);
  EXPECT_GE(n_chunks, 3u);
  EXPECT_EQ(slm_artifact_chunk(context_, artifact, n_chunks, nullptr), 1);  // no such chunk
  EXPECT_EQ(slm_model_open(context_, artifact, &model), 0) << Answer();
  EXPECT_EQ(Member("family"), "\"llama\"");
}

TEST_F(CapiTest, AWrongChunkIsNamedWhoeverHashedIt) {
  std::string bytes = *file_;
  bytes[bytes.size() - 5] ^= 1;
  slm_artifact* artifact = Filled(bytes);
  const uint32_t bad = CheckAll(artifact);
  EXPECT_EQ(ErrorMember("code"), "SLM-CHUNK");
  EXPECT_EQ(ErrorMember("field"), "chunk " + std::to_string(bad));
  // A hash that the caller computed is compared with the table, too.
  const slm::Hash256 wrong{};
  EXPECT_NE(slm_artifact_chunk(context_, artifact, 0, wrong.data()), 0);
  EXPECT_EQ(ErrorMember("field"), "chunk 0");
  const uint64_t begin = std::stoull(ErrorMember("byte_offset"));
  const slm::Hash256 right = slm::Sha256Of(slm::AsBytes(bytes).subspan(begin, size_t{1} << 20));
  EXPECT_EQ(slm_artifact_chunk(context_, artifact, 0, right.data()), 0) << Answer();
  // A damaged head.
  bytes = *file_;
  bytes[200] ^= 1;
  EXPECT_NE(slm_artifact_head(context_, Filled(bytes)), 0);
  EXPECT_EQ(ErrorMember("code"), "SLM-MANIFEST");
}

TEST_F(CapiTest, AHeaderThatAsksForTooMuchIsMemoryWithTheSizes) {
  slm_artifact* artifact = nullptr;
  EXPECT_EQ(slm_artifact_new(context_, Data(*file_), 192, file_->size() - 1, &artifact), 501);
  EXPECT_EQ(ErrorMember("code"), "SLM-SIZE");
  EXPECT_EQ(slm_artifact_new(context_, Data(*file_), 100, UINT64_MAX, &artifact), 501);
  EXPECT_EQ(artifact, nullptr);
}

TEST_F(CapiTest, HandlesAreChecked) {
  slm_model* model = OpenModel();
  slm_context* other = slm_context_new();
  const std::string record = "{\"text\":\"a\"}";
  EXPECT_EQ(slm_tokenize(other, model, Data(record), record.size()), 1);
  slm_context_free(other);
  EXPECT_EQ(slm_tokenize(context_, model, Data(record), record.size()), 0) << Answer();
  EXPECT_EQ(slm_tokenize(context_, nullptr, Data(record), record.size()), 1);
  EXPECT_EQ(slm_tokenize(nullptr, model, Data(record), record.size()), 1);
  slm_session* session = nullptr;
  ASSERT_EQ(slm_session_new(context_, model, 8, &session), 0);
  slm_model_free(context_, model);
  EXPECT_EQ(slm_tokenize(context_, model, Data(record), record.size()), 1);
  EXPECT_EQ(ErrorMember("field"), "model");
  // The session keeps the model alive; a second run ends the first.
  slm_run* first = nullptr;
  slm_run* second = nullptr;
  const std::string ids = "{\"ids\":[1,2],\"max_new_tokens\":2}";
  ASSERT_EQ(slm_run_new(context_, session, Data(ids), ids.size(), &first), 0) << Answer();
  ASSERT_EQ(slm_run_new(context_, session, Data(ids), ids.size(), &second), 0) << Answer();
  EXPECT_EQ(slm_run_prefill(context_, first, 0), 1);
  EXPECT_EQ(slm_run_next(context_, second), 1);  // not fed
  EXPECT_EQ(slm_run_prefill(context_, second, 0), 0) << Answer();
  EXPECT_EQ(slm_run_next(context_, second), 0) << Answer();
}

TEST_F(CapiTest, RecordsAreThoseOfTheCommand) {
  slm_model* model = OpenModel();
  const std::string nul = "{\"id\":7,\"text\":\"a\\u0000b\"}";
  EXPECT_EQ(slm_tokenize(context_, model, Data(nul), nul.size()), 0) << Answer();
  EXPECT_EQ(Member("id"), "7");
  const std::string ids = "{\"ids\":" + Member("ids") + "}";
  EXPECT_EQ(slm_detokenize(context_, model, Data(ids), ids.size()), 0) << Answer();
  EXPECT_NE(Answer().find("a\\u0000b"), std::string::npos) << Answer();
  const std::string unknown = "{\"id\":8,\"texts\":\"a\"}";
  EXPECT_EQ(slm_tokenize(context_, model, Data(unknown), unknown.size()),
            static_cast<int32_t>(slm::ErrorCode::kSchemaUnknownKey));
  EXPECT_EQ(Member("id"), "8");
}

// RUN-03: no bit depends on how the prompt is fed.
TEST_F(CapiTest, ChunksOfAnySizeGiveTheSameTokensAndCache) {
  slm_model* model = OpenModel();
  // The bans: ids of the vocabulary that the tokenizer has no token for.
  const std::string record =
      "{\"ids\":[3,1,4,1,5,9,2,6,5,3,5,8,9,7,9,3,2,3,8,4],\"max_new_tokens\":20,\"stop_at_eos\":false,\"kv\":"
      "true,"
      "\"sampling\":{\"temperature\":0.9,\"seed\":3,\"bans\":[262,263,264,265,266,267,268,269,270,271]}}";
  const std::string whole = Ids(model, 0, record);
  EXPECT_NE(whole.find("\""), std::string::npos);  // holds the cache's hash
  for (const uint32_t chunk : {1U, 3U, 16U}) EXPECT_EQ(Ids(model, chunk, record), whole) << chunk;
}

TEST_F(CapiTest, ContainersAreTheSameForEveryChunkSize) {
  slm_model* model = OpenModel();
  const std::string cases = "{\"id\":\"a\",\"ids\":[1,2,3,4,5,6,7],\"max_new_tokens\":4}\n";
  const auto observe = [&](const std::string& options) {
    EXPECT_EQ(
        slm_observe(context_, model, Data(options), options.size(), Data(cases), cases.size(), nullptr, 0), 0)
        << Answer();
    return Answer();
  };
  const std::string whole = observe("{\"backend\":\"b\"}");
  EXPECT_EQ(whole.substr(1, 6), "SLMGLD");
  EXPECT_EQ(observe("{\"backend\":\"b\",\"prefill_chunk\":1}"), whole);
  EXPECT_EQ(observe("{\"backend\":\"b\",\"prefill_chunk\":3}"), whole);
  EXPECT_NE(observe("{\"backend\":\"c\"}"), whole);
  const std::string bad = "{\"backend\":\"\"}";
  EXPECT_NE(slm_observe(context_, model, Data(bad), bad.size(), Data(cases), cases.size(), nullptr, 0), 0);
  EXPECT_EQ(ErrorMember("field"), "backend");
}

}  // namespace
