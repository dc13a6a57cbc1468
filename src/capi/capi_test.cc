// The C ABI as a C program uses it: handles, refusals, and the answers of the command (TOK-04, RUN-03,
// SLM-CHUNK).
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "capi/slm.h"
#include "codec/json.h"
#include "codec/sha256.h"
#include "convert/convert.h"
#include "convert/convert_test_source.h"
#include "evidence/candidate.h"
#include "evidence/observe.h"
#include "records/run_record.h"
#include "runtime/session.h"
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
  slm_text* OpenText(slm_model* model) {
    EXPECT_EQ(slm_model_texts(context_, model), 0) << Answer();
    const std::string texts = Answer();
    EXPECT_LT(texts.size(), file_->size());
    EXPECT_EQ(texts, file_->substr(0, texts.size()));
    slm_text* text = nullptr;
    EXPECT_EQ(slm_text_open(context_, Data(texts), texts.size(), &text), 0) << Answer();
    return text;
  }
  slm_run* NewRun(slm_session* session, const std::string& record, const std::string& prompt = "") {
    slm_run* run = nullptr;
    EXPECT_EQ(slm_run_new(context_, session, Data(record), record.size(), Data(prompt), prompt.size(), &run),
              0)
        << Answer();
    return run;
  }
  std::string Observe(slm_model* model, slm_text* text, const std::string& cases,
                      const std::string& options) {
    EXPECT_EQ(slm_text_cases(context_, text, Data(cases), cases.size()), 0) << Answer();
    const std::string texts = Answer();
    slm_observation* observation = nullptr;
    EXPECT_EQ(slm_observation_new(context_, model, Data(options), options.size(), Data(cases), cases.size(),
                                  Data(texts), texts.size(), nullptr, 0, &observation),
              0)
        << Answer();
    const uint64_t total = std::stoull(Member("total"));
    for (uint64_t i = 0; i < total; ++i) {
      EXPECT_EQ(slm_observation_next(context_, observation), 0) << Answer();
      const std::string ids = Member("ids");
      if (ids.empty()) continue;
      EXPECT_EQ(slm_observation_next(context_, observation), 1);  // its text comes first
      EXPECT_EQ(slm_observation_finish(context_, observation), 1);
      const std::string record = "{\"ids\":" + ids + ",\"mode\":\"visible\"}";
      EXPECT_EQ(slm_detokenize(context_, text, Data(record), record.size()), 0) << Answer();
      const auto document = slm::json::Parse(Answer());
      slm::Bytes bytes;
      EXPECT_TRUE(slm::FromBase64(document->root().Find("bytes")->string(), &bytes));
      EXPECT_EQ(slm_observation_text(context_, observation, bytes.data(), bytes.size()), 0) << Answer();
      EXPECT_EQ(slm_observation_text(context_, observation, bytes.data(), bytes.size()), 1);
    }
    EXPECT_EQ(slm_observation_next(context_, observation), 1);
    EXPECT_EQ(slm_observation_finish(context_, observation), 0) << Answer();
    return Answer();
  }
  std::string Ids(slm_model* model, uint32_t chunk, const std::string& record) {
    slm_session* session = nullptr;
    EXPECT_EQ(slm_session_new(context_, model, 0, &session), 0) << Answer();
    slm_run* run = NewRun(session, record);
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
  slm_text* text = OpenText(model);
  const std::string record = "{\"text\":\"a\"}";
  EXPECT_EQ(slm_tokenize(other, text, Data(record), record.size()), 1);
  slm_context_free(other);
  EXPECT_EQ(slm_tokenize(context_, text, Data(record), record.size()), 0) << Answer();
  EXPECT_EQ(slm_tokenize(context_, nullptr, Data(record), record.size()), 1);
  EXPECT_EQ(slm_tokenize(nullptr, text, Data(record), record.size()), 1);
  slm_session* session = nullptr;
  ASSERT_EQ(slm_session_new(context_, model, 8, &session), 0);
  slm_model_free(context_, model);
  EXPECT_EQ(slm_model_texts(context_, model), 1);
  EXPECT_EQ(ErrorMember("field"), "model");
  slm_text_free(context_, text);
  EXPECT_EQ(slm_tokenize(context_, text, Data(record), record.size()), 1);
  EXPECT_EQ(ErrorMember("field"), "text");
  // The session keeps the model alive; a second run ends the first.
  const std::string ids = "{\"ids\":[1,2],\"max_new_tokens\":2}";
  slm_run* first = NewRun(session, ids);
  slm_run* second = NewRun(session, ids);
  EXPECT_EQ(slm_run_prefill(context_, first, 0), 1);
  EXPECT_EQ(slm_run_next(context_, second), 1);  // not fed
  EXPECT_EQ(slm_run_prefill(context_, second, 0), 0) << Answer();
  EXPECT_EQ(slm_run_next(context_, second), 0) << Answer();
}

TEST_F(CapiTest, RecordsAreThoseOfTheCommand) {
  slm_text* text = OpenText(OpenModel());
  const std::string nul = "{\"id\":7,\"text\":\"a\\u0000b\"}";
  EXPECT_EQ(slm_tokenize(context_, text, Data(nul), nul.size()), 0) << Answer();
  EXPECT_EQ(Member("id"), "7");
  const std::string ids = "{\"ids\":" + Member("ids") + "}";
  EXPECT_EQ(slm_detokenize(context_, text, Data(ids), ids.size()), 0) << Answer();
  EXPECT_NE(Answer().find("a\\u0000b"), std::string::npos) << Answer();
  const std::string unknown = "{\"id\":8,\"texts\":\"a\"}";
  EXPECT_EQ(slm_tokenize(context_, text, Data(unknown), unknown.size()),
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

// The halves put together give what the command gives (SMP-04): records::Execute is its code.
TEST_F(CapiTest, TextAndIdsTogetherAreARunOfTheCommand) {
  const auto artifact = slm::Artifact::FromBytes({file_->begin(), file_->end()}, slm::Verify::kAllChunks);
  const auto candidate = *slm::evidence::Candidate::Open(*artifact);
  const auto native = *slm::Session::Create(candidate->model(), {});
  slm_model* model = OpenModel();
  slm_text* text = OpenText(model);
  slm_session* session = nullptr;
  ASSERT_EQ(slm_session_new(context_, model, 0, &session), 0) << Answer();
  const std::string common = "\"max_new_tokens\":12,\"stop_at_eos\":false,\"kv\":true,";
  const std::string bans = "\"sampling\":{\"bans\":[262,263,264,265,266,267,268,269,270,271]}}";
  const std::string free = "{\"text\":\"hello\"," + common + bans;
  // A stop string that does come: a byte of the answer without one.
  const auto parsed = slm::json::Parse(free);
  const auto whole =
      slm::records::Execute(*candidate, *native, *slm::records::ParseRequest(parsed->root()), {}, {});
  ASSERT_TRUE(whole.has_value()) << whole.error().ToString();
  ASSERT_GT(whole->visible.size(), 4u);
  const auto ascii = std::find_if(whole->visible.begin() + 1, whole->visible.end(),
                                  [](char c) { return c >= 'a' && c <= 'z'; });
  const std::string stop = ascii == whole->visible.end() ? "\\uFFFF" : std::string(1, *ascii);
  for (const std::string& record : {free, "{\"text\":\"hello\",\"stop\":\"" + stop + "\"," + common + bans,
                                    "{\"ids\":[5,6,7]," + common + bans}) {
    const auto document = slm::json::Parse(record);
    const auto request = slm::records::ParseRequest(document->root());
    ASSERT_TRUE(request.has_value()) << request.error().ToString();
    const auto expected = slm::records::Execute(*candidate, *native, *request, {}, {});
    ASSERT_TRUE(expected.has_value()) << expected.error().ToString();
    slm_text_run* said = nullptr;
    ASSERT_EQ(slm_text_run_new(context_, text, Data(record), record.size(), &said), 0) << Answer();
    slm_run* run = NewRun(session, record, Answer());
    ASSERT_EQ(slm_run_prefill(context_, run, 0), 0) << Answer();
    bool done = false;
    while (!done) {
      ASSERT_EQ(slm_run_next(context_, run), 0) << Answer();
      done = Member("done") == "true";
      ASSERT_EQ(slm_text_run_push(context_, said, static_cast<uint32_t>(std::stoul(Member("id")))), 0)
          << Answer();
      if (Member("stopped") != "true") continue;
      ASSERT_EQ(slm_run_stop(context_, run), 0) << Answer();
      done = Member("done") == "true";
    }
    slm::json::Writer out;
    out.BeginObject();
    slm::records::WriteAnswer(*request, *expected, out);
    const auto answer = slm::json::Parse(out.EndObject().Take());
    ASSERT_EQ(slm_run_finish(context_, run), 0) << Answer();
    for (const char* key : {"prompt_ids", "tokens", "stop_reason", "kv_sha256"})
      EXPECT_EQ(Member(key), answer->root().Find(key)->source_text()) << key << record;
    ASSERT_EQ(slm_text_run_finish(context_, said), 0) << Answer();
    EXPECT_EQ(Member("bytes"), answer->root().Find("bytes")->source_text()) << record;
  }
}

TEST_F(CapiTest, APromptOfTextNeedsItsIds) {
  slm_model* model = OpenModel();
  slm_session* session = nullptr;
  ASSERT_EQ(slm_session_new(context_, model, 8, &session), 0);
  slm_run* run = nullptr;
  const std::string record = "{\"text\":\"a\"}";
  EXPECT_EQ(slm_run_new(context_, session, Data(record), record.size(), nullptr, 0, &run), 1);
  EXPECT_EQ(ErrorMember("field"), "prompt");
  for (const std::string bad : {"{}", "{\"prompt_ids\":[-1]}", "{\"prompt_ids\":[4294967296]}", "[]"})
    EXPECT_NE(slm_run_new(context_, session, Data(record), record.size(), Data(bad), bad.size(), &run), 0)
        << bad;
  const std::string of_ids = "{\"ids\":[1,2]}";
  const std::string others = "{\"prompt_ids\":[2,1]}";
  EXPECT_NE(slm_run_new(context_, session, Data(of_ids), of_ids.size(), Data(others), others.size(), &run),
            0);
  EXPECT_EQ(run, nullptr);
}

TEST_F(CapiTest, ARunIsStoppedByATokenOnly) {
  slm_model* model = OpenModel();
  slm_session* session = nullptr;
  ASSERT_EQ(slm_session_new(context_, model, 8, &session), 0);
  slm_run* run = nullptr;
  for (const std::string record :
       {"{\"ids\":[1,2],\"max_new_tokens\":2}", "{\"ids\":[1,2],\"max_new_tokens\":2,\"stop\":[\"x\"]}"}) {
    ASSERT_EQ(slm_run_new(context_, session, Data(record), record.size(), nullptr, 0, &run), 0) << Answer();
    ASSERT_EQ(slm_run_prefill(context_, run, 0), 0);
    EXPECT_EQ(slm_run_stop(context_, run), 1) << record;  // USAGE: no token was chosen
    ASSERT_EQ(slm_run_next(context_, run), 0);
    const bool may_stop = record.find("stop") != std::string::npos;
    EXPECT_EQ(slm_run_stop(context_, run), may_stop ? 0 : 1) << record;
    ASSERT_EQ(slm_run_finish(context_, run), 0);
  }
}

// What is read of the texts is hashed again by whoever opens them.
TEST_F(CapiTest, ADamagedTextIsRefused) {
  slm_model* model = OpenModel();
  ASSERT_EQ(slm_model_texts(context_, model), 0);
  const std::string texts = Answer();
  const auto artifact = *slm::Artifact::FromBytes({file_->begin(), file_->end()}, slm::Verify::kAllChunks);
  const auto tokenizer =
      std::find_if(artifact->blobs().begin(), artifact->blobs().end(),
                   [](const slm::BlobEntry& blob) { return blob.kind == "tokenizer-json"; });
  ASSERT_NE(tokenizer, artifact->blobs().end());
  slm_text* text = nullptr;
  for (const auto& [at, code] : {std::pair<size_t, const char*>{100, "SLM-CRC"},
                                 {200, "SLM-MANIFEST"},
                                 {tokenizer->offset + tokenizer->size - 1, "SLM-BLOB-HASH"}}) {
    std::string bad = texts;
    bad[at] ^= 1;
    EXPECT_NE(slm_text_open(context_, Data(bad), bad.size(), &text), 0);
    EXPECT_EQ(ErrorMember("code"), code) << at;
  }
  for (const size_t size : {size_t{0}, size_t{100}, size_t{70000}, texts.size() - 1}) {
    EXPECT_NE(slm_text_open(context_, Data(texts), std::min(size, texts.size() - 1), &text), 0) << size;
    EXPECT_TRUE(ErrorMember("code").starts_with("SLM-")) << Answer();
  }
  EXPECT_EQ(text, nullptr);
}

TEST_F(CapiTest, ContainersAreTheSameForEveryChunkSizeAndThoseOfTheCommand) {
  slm_model* model = OpenModel();
  slm_text* text = OpenText(model);
  const std::string cases =
      "{\"id\":\"a\",\"ids\":[1,2,3,4,5,6,7],\"max_new_tokens\":4}\n"
      "{\"id\":\"b\",\"text\":\"hello \\u00e9\",\"max_new_tokens\":3}\n"
      "{\"id\":\"c\",\"text\":\"hi\"}\n";
  const std::string whole = Observe(model, text, cases, "{\"backend\":\"native-scalar\"}");
  EXPECT_EQ(whole.substr(1, 6), "SLMGLD");
  EXPECT_EQ(Observe(model, text, cases, "{\"backend\":\"native-scalar\",\"prefill_chunk\":1}"), whole);
  EXPECT_EQ(Observe(model, text, cases, "{\"backend\":\"native-scalar\",\"prefill_chunk\":3}"), whole);
  EXPECT_NE(Observe(model, text, cases, "{\"backend\":\"c\"}"), whole);
  const auto artifact = slm::Artifact::FromBytes({file_->begin(), file_->end()}, slm::Verify::kAllChunks);
  slm::evidence::ObserveOptions options;
  options.cases_sha256 = slm::Sha256Of(slm::AsBytes(cases));
  std::string native;
  const auto done =
      slm::evidence::Observe(**slm::evidence::Candidate::Open(*artifact), *slm::evidence::ParseCases(cases),
                             options, [&native](slm::ByteSpan part) -> slm::Status {
                               native.append(slm::AsText(part));
                               return {};
                             });
  ASSERT_TRUE(done.has_value()) << done.error().ToString();
  EXPECT_EQ(whole, native);
}

TEST_F(CapiTest, AnObservationNeedsItsOptionsAndItsTexts) {
  slm_model* model = OpenModel();
  slm_text* text = OpenText(model);
  const std::string cases = "{\"id\":\"a\",\"text\":\"hi\"}\n";
  ASSERT_EQ(slm_text_cases(context_, text, Data(cases), cases.size()), 0) << Answer();
  const std::string texts = Answer();
  slm_observation* observation = nullptr;
  const auto begin = [&](const std::string& options, const std::string& said) {
    return slm_observation_new(context_, model, Data(options), options.size(), Data(cases), cases.size(),
                               Data(said), said.size(), nullptr, 0, &observation);
  };
  EXPECT_NE(begin("{\"backend\":\"\"}", texts), 0);
  EXPECT_EQ(ErrorMember("field"), "backend");
  const std::string good = "{\"backend\":\"b\"}";
  for (const std::string bad :
       {"{}", "{\"cases\":[]}", "{\"cases\":[{}]}", "{\"cases\":[{\"ids\":[1],\"rendered\":\"?\"}]}",
        "{\"cases\":[{\"ids\":[1],\"ownership\":[[0,1]]}]}",
        "{\"cases\":[{\"ids\":[1],\"tokenization\":{\"of\":\"input\"}}]}",
        "{\"cases\":[{\"ids\":[1]},{\"ids\":[1]}]}"}) {
    EXPECT_NE(begin(good, bad), 0) << bad;
    EXPECT_EQ(ErrorMember("code"), "CASE-SCHEMA") << bad;
  }
  // The texts of other cases, or of another artifact, are not taken for these.
  const std::string other = "{\"id\":\"a\",\"text\":\"ho\"}\n";
  ASSERT_EQ(slm_text_cases(context_, text, Data(other), other.size()), 0) << Answer();
  EXPECT_NE(begin(good, Answer()), 0);
  EXPECT_EQ(ErrorMember("field"), "cases_sha256");
  std::string of_another = texts;
  char& digit = of_another[of_another.find("\"artifact\":\"") + 12];
  digit = digit == '0' ? '1' : '0';
  EXPECT_NE(begin(good, of_another), 0);
  EXPECT_EQ(ErrorMember("field"), "artifact");
  EXPECT_EQ(observation, nullptr);
  EXPECT_EQ(begin(good, texts), 0) << Answer();
  EXPECT_EQ(slm_observation_finish(context_, observation), 1);  // no case has run
  slm_observation_free(context_, observation);
  EXPECT_EQ(slm_observation_next(context_, observation), 1);
}

}  // namespace
