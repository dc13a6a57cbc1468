// The records of run, step by step as the browser does and in one go as the command does.
#include "records/run_record.h"

#include <gtest/gtest.h>

#include "convert/convert.h"
#include "convert/convert_test_source.h"
#include "records/record.h"
#include "runtime/session.h"
#include "slm_file/artifact.h"
#include "tests/support/tiny_source.h"

namespace slm::records {
namespace {

TEST(AnswerLine, EchoesTheIdByteForByteAndGoesOnAfterARefusal) {
  const Handler handle = [](const json::Value& record, json::Writer& out) -> RecordStatus {
    SLM_TRY(OnlyMembers(record, {"id", "x"}));
    out.Key("seen").Bool(record.Find("x").has_value());
    return {};
  };
  EXPECT_EQ(AnswerLine("{\"id\": 1.50, \"x\":0}", false, handle).text, "{\"id\":1.50,\"seen\":true}");
  EXPECT_FALSE(AnswerLine("{}", false, handle).code.has_value());
  const AnsweredLine unknown = AnswerLine("{\"id\":\"a\",\"y\":0}", false, handle);
  EXPECT_EQ(unknown.code, ErrorCode::kSchemaUnknownKey);
  EXPECT_TRUE(unknown.text.starts_with("{\"id\":\"a\",\"error\":{\"code\":\"SCHEMA-UNKNOWN-KEY\""))
      << unknown.text;
  EXPECT_EQ(AnswerLine(" \t", false, handle).code, ErrorCode::kJsonSyntax);
  EXPECT_EQ(AnswerLine("[1]", false, handle).code, ErrorCode::kJsonType);
  EXPECT_EQ(AnswerLine("", true, handle).code, ErrorCode::kLimit);
}

TEST(AnswerLine, AFaultHasItsPlace) {
  const Handler handle = [](const json::Value&, json::Writer&) -> RecordStatus {
    return std::unexpected(Fault(MakeError(ErrorCode::kTplInput, "no"), {"render", 3, 7}));
  };
  EXPECT_NE(AnswerLine("{}", false, handle).text.find("\"stage\":\"render\",\"line\":3,\"column\":7"),
            std::string::npos);
}

Result<Request> Parsed(std::string text) {
  const auto document = json::Parse(std::move(text));
  return ParseRequest(document->root());
}

TEST(ParseRequest, ReadsWhatTheContractNames) {
  const auto request = Parsed(
      "{\"ids\":[1,2],\"max_new_tokens\":3,\"stop\":\"a\",\"stop_ids\":[7],\"logits\":\"all\",\"kv\":true,"
      "\"sampling\":{\"temperature\":0.5,\"seed\":9}}");
  ASSERT_TRUE(request.has_value()) << request.error().ToString();
  EXPECT_EQ(request->spec.ids, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(request->stop, std::vector<std::string>{"a"});
  EXPECT_EQ(request->stop_ids, std::vector<uint32_t>{7});
  EXPECT_EQ(request->logits, LogitRows::kAll);
  EXPECT_TRUE(request->kv);
  EXPECT_EQ(request->sampling.seed, 9u);
  EXPECT_EQ(Parsed("{\"ids\":[1],\"kv\":1}").error().field, "kv");
  EXPECT_EQ(Parsed("{\"ids\":[1],\"logits\":\"some\"}").error().field, "logits");
}

// SMP-05: one answer for one seed. Nothing can ask for several and keep the best.
TEST(ParseRequest, BestOfNIsNoOption) {
  for (const char* name : {"n", "best_of", "num_return_sequences", "candidates"}) {
    const std::string option = "\"" + std::string(name) + "\":2";
    for (const std::string& text :
         {"{\"ids\":[1]," + option + "}", "{\"ids\":[1],\"sampling\":{\"temperature\":1," + option + "}}"}) {
      const auto request = Parsed(text);
      ASSERT_FALSE(request.has_value()) << text;
      EXPECT_TRUE(request.error().field.ends_with(name)) << request.error().ToString();
    }
  }
}

// The demo chain of the tests, and what a run of it gives in one go and step by step.
class RunTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto files = test::TinySource().Files();
    const std::string path = test::FreshDirectory("records") + "/tiny.slm";
    ASSERT_TRUE(convert::Convert(convert::SourceFromFiles(files), {}, path).has_value());
    candidate_ = *evidence::Candidate::Open(*Artifact::OpenFile(path, Verify::kAllChunks));
  }
  static void TearDownTestSuite() { candidate_.reset(); }

  std::unique_ptr<Session> session_ = *Session::Create(candidate_->model(), {});
  static std::shared_ptr<const evidence::Candidate> candidate_;
};
std::shared_ptr<const evidence::Candidate> RunTest::candidate_;

// RUN-03: a prefix that the session holds already changes no token and no bit of the cache.
TEST_F(RunTest, AReusedPrefixChangesNothing) {
  const auto request = Parsed(
      "{\"ids\":[1,2,3,4,5,6],\"max_new_tokens\":8,\"stop_at_eos\":false,\"kv\":true,"
      "\"sampling\":{\"repetition_penalty\":1.5}}");
  const auto fresh = Execute(*candidate_, *session_, *request, {}, {});
  ASSERT_TRUE(fresh.has_value()) << fresh.error().ToString();
  const auto longer = Parsed("{\"ids\":[1,2,3,4,9,9,9],\"max_new_tokens\":2}");
  ASSERT_TRUE(Execute(*candidate_, *session_, *longer, {}, {}).has_value());
  auto run = Run::Create(*candidate_, *session_, *request, {.reuse_prefix = true});
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ((*run)->n_fed(), 4u);
  ASSERT_TRUE((*run)->Prefill(0).has_value());
  while (!(*run)->done()) ASSERT_TRUE((*run)->Next().has_value());
  const auto end = (*run)->Finish();
  EXPECT_EQ(end->answer.generation.ids, fresh->generation.ids);
  EXPECT_EQ(end->answer.kv_sha256, fresh->kv_sha256);
}

TEST_F(RunTest, ARunThatIsNotDoneIsCancelled) {
  const auto request = Parsed("{\"ids\":[1,2],\"max_new_tokens\":8,\"stop_at_eos\":false}");
  auto run = Run::Create(*candidate_, *session_, *request, {});
  ASSERT_TRUE((*run)->Prefill(1).has_value());
  ASSERT_TRUE((*run)->Prefill(1).has_value());
  const auto step = (*run)->Next();
  ASSERT_TRUE(step.has_value());
  const auto end = (*run)->Finish();
  EXPECT_EQ(end->answer.generation.stop_reason, StopReason::kCancelled);
  EXPECT_EQ(end->answer.generation.ids, std::vector<uint32_t>{step->id});
}

TEST_F(RunTest, NothingToGenerate) {
  const auto none = Parsed("{\"ids\":[1,2],\"max_new_tokens\":0}");
  const auto answer = Execute(*candidate_, *session_, *none, {}, {});
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->generation.ids.empty());
  EXPECT_EQ(answer->generation.stop_reason, StopReason::kLength);
}

}  // namespace
}  // namespace slm::records
