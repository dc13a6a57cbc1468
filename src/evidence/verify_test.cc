// A whole promotion of a small source, then every kind of tampering that a forger could try. Each forged
// receipt has all hashes above the change made again, so only what verify recomputes can tell.
#include "evidence/verify.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <tuple>

#include "codec/sha256.h"
#include "convert/convert.h"
#include "evidence/candidate.h"
#include "evidence/observe.h"
#include "evidence/promote.h"
#include "evidence/receipt.h"
#include "tests/support/tiny_source.h"

namespace slm::evidence {
namespace {

constexpr std::string_view kCases =
    "{\"id\":\"ids\",\"ids\":[5,6,7,8,9],\"max_new_tokens\":4}\n"
    "{\"id\":\"text\",\"text\":\"ab cd\",\"max_new_tokens\":3}\n"
    "{\"id\":\"chat\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_new_tokens\":2}\n";

std::string PolicyText() {
  std::string rules;
  for (std::string_view role : compare::NumericRoles()) {
    if (!rules.empty()) rules += ",";
    rules += "{\"role\":\"" + std::string(role) + "\",";
    if (role == "embed" || role == "attn.mask") {
      rules += "\"kind\":\"exact\"}";
    } else if (role == "rope.inv_freq") {
      rules += "\"kind\":\"ulp\",\"max_ulp\":1}";
    } else {
      rules +=
          "\"kind\":\"bounded\",\"atol\":1e-5,\"rtol\":0,\"relative_floor\":1e-3,"
          "\"atol_basis\":{\"permitted\":1e-4,\"oracle_variation\":0,\"observed\":0,\"factor\":0},"
          "\"rtol_basis\":{\"permitted\":0,\"oracle_variation\":0,\"observed\":0,\"factor\":0}}";
    }
  }
  return "{\"schema\":\"slm.tolerance-policy.v1\",\"name\":\"tiny\",\"version\":1,\"profile\":\"exact-v1\","
         "\"applies_to\":{\"sources\":\"any\",\"backends\":[\"native-scalar\"]},\"factor_reason\":\"test\","
         "\"margin_e\":1e-5,"
         "\"margin_e_basis\":{\"permitted\":1e-4,\"oracle_variation\":0,\"observed\":0,\"factor\":0},"
         "\"unstable_cap_ppm\":10000,\"rules\":[" +
         rules + "]}";
}

Bytes ToBytes(std::string_view text) {
  return {text.begin(), text.end()};
}

Bytes Rewrite(
    const golden::Golden& golden, const std::function<void(golden::Content*)>& edit_content,
    const std::function<void(const std::string& case_id, const std::string& name, Bytes*)>& edit_array) {
  Bytes out;
  golden::GoldenWriter writer([&out](ByteSpan bytes) -> Status {
    out.insert(out.end(), bytes.begin(), bytes.end());
    return {};
  });
  golden::Content content = golden.content();
  for (golden::Case& one : content.cases) {
    for (golden::Observation& observation : one.observations) {
      const ByteSpan old = golden.BlobBytes(observation.blob);
      Bytes bytes(old.begin(), old.end());
      if (edit_array) edit_array(one.case_id, observation.name, &bytes);
      observation.blob = *writer.AddBlob(bytes);
    }
  }
  for (golden::Observation& observation : content.model_observations) {
    observation.blob = *writer.AddBlob(golden.BlobBytes(observation.blob));
  }
  if (edit_content) edit_content(&content);
  const Status status = writer.Finish(std::move(content));
  EXPECT_TRUE(status.has_value()) << status.error().ToString();
  return out;
}

// One promotion of a tiny source, made once for all tests: every object that it reaches, in memory.
struct Fixture {
  MemoryObjects objects;
  PromotionParts parts;
  Hash256 receipt{};
  std::string error;
};

// A source's file in memory.
class OwnedBytes : public ByteSource {
 public:
  explicit OwnedBytes(Bytes bytes) : bytes_(std::move(bytes)) {}
  [[nodiscard]] ByteSpan bytes() const override { return bytes_; }

 private:
  Bytes bytes_;
};

struct Acquired {
  Hash256 id{}, license{};
  std::vector<convert::SourceFile> files;
};

// The nodes that an acquisition of these files would write (docs/spec/promotion.md).
Acquired Acquire(const std::map<std::string, std::string>& files, const ObjectSink& sink) {
  Acquired acquired;
  Node tree{
      "source-tree", cbor::Map{{"schema", "slm.source-tree.v1"}, {"files", files.size()}, {"bytes", 0}}, {}};
  for (const auto& [path, text] : files) {
    const Hash256 blob = *sink.put_blob(AsBytes(text));
    acquired.files.push_back({path, text.size(), blob});
    const Node file{"source-file",
                    cbor::Map{{"schema", "slm.source-file.v1"},
                              {"path", ToBytes(path)},
                              {"kind", "other"},
                              {"size", text.size()},
                              {"blob", blob}},
                    {}};
    tree.edges.push_back({"file", *sink.put_node(file)});
  }
  const Node license{"license-decision",
                     cbor::Map{{"schema", "slm.license-decision.v1"},
                               {"spdx", "MIT"},
                               {"redistribution", "allowed"},
                               {"attribution", true},
                               {"duties", ""},
                               {"settled_by", "evidence"},
                               {"evidence", cbor::Array{}},
                               {"cards_table", *sink.put_blob(AsBytes("cards"))},
                               {"texts_table", *sink.put_blob(AsBytes("texts"))}},
                     {}};
  acquired.license = *sink.put_node(license);
  Node acquisition{"acquisition",
                   cbor::Map{{"schema", "slm.acquisition.v1"},
                             {"name", "tiny"},
                             {"revision", "r1"},
                             {"transport", "directory"},
                             {"binding", "asserted"},
                             {"profile", *sink.put_blob(AsBytes("profile"))},
                             {"profile_name", "test"},
                             {"spdx", "MIT"},
                             {"redistribution", "allowed"},
                             {"weights", cbor::Array{"model.safetensors"}},
                             {"flags", cbor::Array{}},
                             {"choices", cbor::Array{}},
                             {"ignored_metadata", cbor::Array{}}},
                   {}};
  acquisition.edges = {{"source-tree", *sink.put_node(tree)}, {"license", acquired.license}};
  acquired.id = *sink.put_node(acquisition);
  return acquired;
}

// An oracle's container that agrees with the candidate: same arrays, the oracle's identities.
Bytes OracleOf(const golden::Golden& candidate, golden::Mode mode, const Acquired& acquisition) {
  return Rewrite(candidate,
                 [&](golden::Content* content) {
                   content->mode = mode;
                   content->identities.erase("artifact");
                   content->source_files.clear();
                   for (const convert::SourceFile& file : acquisition.files) {
                     content->source_files.push_back({ToBytes(file.path), file.size, file.blob});
                   }
                   const cbor::Map versions{{"transformers", "5.24.0"}, {"tokenizers", "0.23.3"}};
                   content->generator = cbor::Map{
                       {"kind", "oracle"},
                       {"mode", golden::ModeName(mode)},
                       {"cases_sha256", Sha256Of(AsBytes(kCases))},
                       {"exporter_sha256", Hash256{1}},
                       {"environment", cbor::Map{{"versions", versions}, {"lock_sha256", Hash256{2}}}},
                       {"framework", cbor::Map{{"dtype", mode == golden::Mode::kTruth ? "f64" : "f32"},
                                               {"attention", "eager"},
                                               {"deterministic_algorithms", true},
                                               {"matmul_precision", "highest"},
                                               {"tf32_matmul", false},
                                               {"tf32_cudnn", false}}}};
                 },
                 {});
}

void Build(Fixture* fixture) {
  const std::string directory = test::FreshDirectory("verify_test");
  const std::map<std::string, std::string> files = test::TinySource().Files();
  const ObjectSink sink = fixture->objects.Sink();
  const Acquired acquisition = Acquire(files, sink);
  convert::Source to_convert;
  to_convert.name = "tiny";
  to_convert.revision = "r1";
  to_convert.acquisition = acquisition.id;
  to_convert.spdx = "MIT";
  to_convert.files = acquisition.files;
  to_convert.open = [&files](const convert::SourceFile& file) -> Result<std::unique_ptr<ByteSource>> {
    return std::make_unique<OwnedBytes>(ToBytes(files.at(file.path)));
  };
  const std::string artifact_path = directory + "/model.slm";
  const auto converted = convert::Convert(to_convert, {}, artifact_path);
  ASSERT_TRUE(converted.has_value()) << converted.error().ToString();
  auto artifact = Artifact::OpenFile(artifact_path, slm::Verify::kAllChunks);
  ASSERT_TRUE(artifact.has_value()) << artifact.error().ToString();
  const auto candidate = Candidate::Open(*artifact);
  ASSERT_TRUE(candidate.has_value()) << candidate.error().ToString();
  const auto cases = ParseCases(kCases);
  ASSERT_TRUE(cases.has_value()) << cases.error().ToString();
  Bytes container;
  ObserveOptions observe;
  observe.cases_sha256 = Sha256Of(AsBytes(kCases));
  const Status observed = Observe(**candidate, *cases, observe, [&container](ByteSpan bytes) -> Status {
    container.insert(container.end(), bytes.begin(), bytes.end());
    return {};
  });
  ASSERT_TRUE(observed.has_value()) << observed.error().ToString();

  for (const Bytes& blob : converted->blobs) (void)*sink.put_blob(blob);
  for (const Node& node : converted->nodes) (void)*sink.put_node(node);
  (void)*sink.put_blob((*artifact)->file());
  const auto golden = golden::Golden::FromBytes(container);
  ASSERT_TRUE(golden.has_value()) << golden.error().ToString();
  PromotionParts& parts = fixture->parts;
  parts.acquisition = acquisition.id;
  parts.license_decision = acquisition.license;
  parts.artifact_node = converted->artifact_node;
  parts.policy_json = ToBytes(PolicyText());
  parts.cases = ToBytes(kCases);
  parts.observation_blob = *sink.put_blob(container);
  for (golden::Mode mode : {golden::Mode::kReference, golden::Mode::kSource}) {
    parts.evidence_blobs.push_back(*sink.put_blob(OracleOf(**golden, mode, acquisition)));
  }
  parts.build.version = "test";
  const auto promotion = WritePromotion(fixture->objects.Source(), sink, parts);
  ASSERT_TRUE(promotion.has_value()) << promotion.error().ToString();
  fixture->receipt = promotion->receipt;
  std::filesystem::remove_all(directory);
}

const Fixture& Base() {
  static const Fixture fixture = [] {
    Fixture made;
    Build(&made);
    return made;
  }();
  return fixture;
}

class VerifyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    objects_ = Base().objects;
    receipt_ = Base().receipt;
    ASSERT_NE(receipt_, Hash256{});
  }
  Verification Run() {
    auto result = evidence::Verify(objects_.Source(), receipt_, judge_);
    EXPECT_TRUE(result.has_value()) << result.error().ToString();
    return *std::move(result);
  }
  Node NodeOf(const Hash256& id) { return *DecodeNode(objects_.nodes.at(id)); }
  Hash256 Child(std::string_view role) { return *NodeOf(receipt_).Child(role); }

  // Puts `forged` in place of `old` and makes every hash above it again, as a forger would.
  void Replace(const Hash256& old, const Node& forged) {
    std::map<Hash256, Hash256> moved = {{old, *objects_.Sink().put_node(forged)}};
    bool again = true;
    while (again) {
      again = false;
      const auto nodes = objects_.nodes;
      for (const auto& [id, bytes] : nodes) {
        if (moved.contains(id)) continue;
        Node node = *DecodeNode(bytes);
        bool changed = false;
        for (Edge& edge : node.edges) {
          const auto to = moved.find(edge.child);
          if (to == moved.end()) continue;
          edge.child = to->second;
          changed = true;
        }
        if (!changed) continue;
        moved[id] = *objects_.Sink().put_node(node);
        again = true;
      }
      // Parents that were moved before a second child of theirs moved point at the old one still.
      for (auto& [from, to] : moved) {
        Node node = *DecodeNode(objects_.nodes.at(to));
        bool changed = false;
        for (Edge& edge : node.edges) {
          const auto next = moved.find(edge.child);
          if (next == moved.end() || next->second == edge.child) continue;
          edge.child = next->second;
          changed = true;
        }
        if (!changed) continue;
        to = *objects_.Sink().put_node(node);
        again = true;
      }
    }
    if (moved.contains(receipt_)) receipt_ = moved.at(receipt_);
  }
  static bool HasProblem(const Verification& verification, std::string_view code) {
    return std::any_of(verification.problems.begin(), verification.problems.end(),
                       [code](const Problem& problem) { return problem.code == code; });
  }
  static ClaimState StateOf(const Verification& verification, std::string_view name) {
    const Claim* claim = verification.Find(name);
    return claim == nullptr ? ClaimState::kNotClaimed : claim->state;
  }

  MemoryObjects objects_;
  Hash256 receipt_{};
  // The tiny source's acquisition is made up here; acquire::JudgeAgain has its own tests.
  SourceJudge judge_ = [](const Hash256&) { return std::optional<SourceFault>(); };
};

TEST_F(VerifyTest, AnHonestReceiptHolds_ID_07) {
  const Verification verification = Run();
  for (const Problem& problem : verification.problems)
    ADD_FAILURE() << problem.code << " " << problem.field << ": " << problem.what;
  for (const char* name : {"graph", "source", "license", "conflicts", "artifact", "profile", "tokenizer",
                           "L0", "L1", "L2", "L3", "L5", "L6", "L7", "L9", "verdicts"}) {
    EXPECT_EQ(StateOf(verification, name), ClaimState::kHolds)
        << name << ": " << verification.Find(name)->detail;
  }
  for (const char* name : {"L4", "L8", "L10", "L11", "L12", "truth"}) {
    EXPECT_EQ(StateOf(verification, name), ClaimState::kNotClaimed) << name;
  }
  EXPECT_TRUE(verification.Holds({}));
  EXPECT_TRUE(verification.Holds({"L5"}));
  EXPECT_FALSE(verification.Holds({"truth"})) << "a claim that was asked for must hold, not be absent";
  const std::string text = VerificationToText(verification);
  EXPECT_NE(text.find("not claimed"), std::string::npos);
  EXPECT_NE(text.find(kTrustedWithoutProof), std::string::npos);
}

TEST_F(VerifyTest, TheSameInputGivesTheSameReceipt_ID_03) {
  const auto again = WritePromotion(objects_.Source(), objects_.Sink(), Base().parts);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->receipt, receipt_);
}

TEST_F(VerifyTest, WithoutEvidenceNothingAboveL0IsClaimed_LVL_01) {
  PromotionParts parts = Base().parts;
  parts.evidence_blobs.clear();
  const auto promotion = WritePromotion(objects_.Source(), objects_.Sink(), parts);
  ASSERT_TRUE(promotion.has_value()) << promotion.error().ToString();
  receipt_ = promotion->receipt;
  const Verification verification = Run();
  EXPECT_TRUE(verification.Holds({}));
  EXPECT_EQ(StateOf(verification, "L0"), ClaimState::kHolds);
  ASSERT_TRUE(verification.comparison.has_value());
  EXPECT_GT(verification.comparison->levels[0].n_checks, 3u) << "computed, not a constant";
  EXPECT_EQ(StateOf(verification, "observations"), ClaimState::kHolds);
  for (const char* name : {"L1", "L2", "L3", "L5", "L6", "L7", "L9", "truth"}) {
    EXPECT_EQ(StateOf(verification, name), ClaimState::kNotClaimed) << name;
  }
}

// A candidate that computes something else, honestly recorded as failing; then the forger flips it.
TEST_F(VerifyTest, AFlippedVerdictIsCaught) {
  const auto golden = golden::Golden::FromBytes(objects_.blobs.at(Base().parts.observation_blob));
  ASSERT_TRUE(golden.has_value());
  PromotionParts parts = Base().parts;
  parts.observation_blob = *objects_.Sink().put_blob(
      Rewrite(**golden, {}, [](const std::string& case_id, const std::string& name, Bytes* bytes) {
        if (case_id == "ids" && name == "layers.1.mlp.act") (*bytes)[3] ^= 0x40;
      }));
  const auto promotion = WritePromotion(objects_.Source(), objects_.Sink(), parts);
  ASSERT_TRUE(promotion.has_value()) << promotion.error().ToString();
  EXPECT_FALSE(promotion->Holds());
  receipt_ = promotion->receipt;
  Verification verification = Run();
  EXPECT_EQ(StateOf(verification, "L5"), ClaimState::kFails);
  EXPECT_EQ(StateOf(verification, "verdicts"), ClaimState::kHolds) << "it says so itself";
  EXPECT_NE(verification.Find("L5")->detail.find("layers.1.mlp.act"), std::string::npos);

  for (const std::string_view role : {"comparison", "promotion"}) {
    const Hash256 id = role == "promotion" ? receipt_ : Child(role);
    Node node = NodeOf(id);
    cbor::Map verdicts = *node.metadata.Find("verdicts")->AsMap();
    verdicts.Set("l5", "pass");
    node.metadata.Set("verdicts", verdicts);
    Replace(id, node);
  }
  verification = Run();
  EXPECT_TRUE(HasProblem(verification, "VERDICT-DIFFERS"));
  EXPECT_EQ(StateOf(verification, "L5"), ClaimState::kFails) << "recomputed, whatever the receipt says";
  EXPECT_EQ(StateOf(verification, "graph"), ClaimState::kHolds) << "every hash was made again";
  EXPECT_FALSE(verification.Holds({}));
}

TEST_F(VerifyTest, FlippedNumbersBehindAnUnchangedVerdictAreCaught) {
  Node node = NodeOf(Child("comparison"));
  Bytes metrics = objects_.blobs.at(HashOf(node, "blob"));
  metrics[metrics.size() / 2] ^= 1;
  node.metadata.Set("blob", *objects_.Sink().put_blob(metrics));
  Replace(Child("comparison"), node);
  const Verification verification = Run();
  EXPECT_TRUE(HasProblem(verification, "VERDICT-DIFFERS"));
}

TEST_F(VerifyTest, AChangedByteOfARawArrayIsCaught_K01) {
  objects_.blobs.at(Base().parts.observation_blob)[100] ^= 1;
  const Verification verification = Run();
  EXPECT_TRUE(HasProblem(verification, "FSCK-HASH"));
  EXPECT_EQ(StateOf(verification, "graph"), ClaimState::kFails);
  EXPECT_EQ(StateOf(verification, "L0"), ClaimState::kFails);
  EXPECT_FALSE(verification.Holds({}));
}

TEST_F(VerifyTest, AChangedByteOfANodeIsCaught_K01) {
  Bytes& bytes = objects_.nodes.at(Child("runtime-build"));
  bytes[bytes.size() - 1] ^= 1;
  EXPECT_FALSE(Run().Holds({}));
}

TEST_F(VerifyTest, AMissingChildIsCaught_K02) {
  objects_.nodes.erase(Child("tolerance-policy"));
  const Verification verification = Run();
  EXPECT_TRUE(HasProblem(verification, "GRAPH-MISSING-CHILD"));
  EXPECT_FALSE(verification.Holds({}));
}

TEST_F(VerifyTest, ARequiredRoleThatWasLeftOutIsCaught_K02) {
  for (const std::string_view role :
       {"license-decision", "observation", "artifact", "runtime-build", "case-suite"}) {
    SetUp();
    Node node = NodeOf(receipt_);
    std::erase_if(node.edges, [role](const Edge& edge) { return edge.role == role; });
    Replace(receipt_, node);
    const Verification verification = Run();
    EXPECT_TRUE(HasProblem(verification, "GRAPH-MISSING-CHILD")) << role;
    EXPECT_FALSE(verification.Holds({})) << role;
  }
}

TEST_F(VerifyTest, AMissingBlobIsCaught_K02) {
  objects_.blobs.erase(Base().parts.evidence_blobs[0]);
  EXPECT_TRUE(HasProblem(Run(), "GRAPH-MISSING-CHILD"));
}

TEST_F(VerifyTest, AForgedCycleIsCaughtAndEnds_K03) {
  // A node that claims its grandparent as its child, under an unchanged id.
  const Hash256 artifact = Child("artifact");
  Node node = NodeOf(Child("effective-config"));
  node.edges.push_back({"family-profile", artifact});
  objects_.nodes[Child("effective-config")] = EncodeNode(node);
  const Verification verification = Run();
  EXPECT_TRUE(HasProblem(verification, "GRAPH-CYCLE"));
  EXPECT_TRUE(HasProblem(verification, "FSCK-HASH"));
  EXPECT_FALSE(verification.Holds({}));
}

TEST_F(VerifyTest, AnotherPolicyUnderTheReceiptIsCaught_K08) {
  std::string loose = PolicyText();
  loose.replace(loose.find("\"version\":1"), 11, "\"version\":2");
  Node policy = NodeOf(Child("tolerance-policy"));
  policy.metadata.Set("blob", *objects_.Sink().put_blob(AsBytes(loose)));
  policy.metadata.Set("version", 2);
  const Hash256 id = *objects_.Sink().put_node(policy);
  Node promotion = NodeOf(receipt_);
  for (Edge& edge : promotion.edges) {
    if (edge.role == "tolerance-policy") edge.child = id;
  }
  Replace(receipt_, promotion);
  const Verification verification = Run();
  EXPECT_TRUE(HasProblem(verification, "GRAPH-POLICY"));
  EXPECT_FALSE(verification.Holds({}));
}

TEST_F(VerifyTest, ASwappedPolicyChangesTheNumbers_TOL_03) {
  std::string other = PolicyText();
  other.replace(other.find("\"version\":1"), 11, "\"version\":2");
  Node policy = NodeOf(Child("tolerance-policy"));
  policy.metadata.Set("blob", *objects_.Sink().put_blob(AsBytes(other)));
  policy.metadata.Set("version", 2);
  Replace(Child("tolerance-policy"), policy);  // under the comparison too
  const Verification verification = Run();
  EXPECT_TRUE(HasProblem(verification, "VERDICT-DIFFERS")) << "the stored numbers were made under version 1";
}

TEST_F(VerifyTest, EvidenceOfAnotherSourceIsRefusedAndCaught) {
  const auto golden = golden::Golden::FromBytes(objects_.blobs.at(Base().parts.evidence_blobs[0]));
  ASSERT_TRUE(golden.has_value());
  const Bytes other = Rewrite(
      **golden,
      [](golden::Content* content) {
        content->source_files[0].sha256[0] ^= 1;
        cbor::Array files;
        for (const golden::SourceFile& file : content->source_files) {
          files.emplace_back(cbor::Map{{"path", file.path}, {"sha256", file.sha256}, {"size", file.size}});
        }
        content->identities["source"] = Sha256Of(cbor::Encode(files));
      },
      {});
  const auto opened = golden::Golden::FromBytes(other);
  ASSERT_TRUE(opened.has_value()) << opened.error().ToString();
  PromotionParts parts = Base().parts;
  parts.evidence_blobs = {*objects_.Sink().put_blob(other)};
  const auto refused = WritePromotion(objects_.Source(), objects_.Sink(), parts);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kGraphSchema);
  EXPECT_EQ(refused.error().field, AsText(ByteSpan((*opened)->content().source_files[0].path)));

  Node run = NodeOf(Child("oracle-run"));
  run.metadata.Set("blob", parts.evidence_blobs[0]);
  run.metadata.Set("envelope_sha256", (*opened)->envelope_sha256());
  Replace(Child("oracle-run"), run);
  const Verification verification = Run();
  EXPECT_FALSE(verification.Holds({}));
  EXPECT_EQ(StateOf(verification, "verdicts"), ClaimState::kFails);
}

TEST_F(VerifyTest, EvidenceOfAnotherSuiteIsRefused) {
  PromotionParts parts = Base().parts;
  const std::string more = "{\"id\":\"more\",\"ids\":[1]}\n";
  parts.cases.insert(parts.cases.end(), more.begin(), more.end());
  const auto refused = WritePromotion(objects_.Source(), objects_.Sink(), parts);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().field, "cases_sha256");
}

TEST_F(VerifyTest, ObservationsOfAnotherArtifactAreRefused) {
  const auto golden = golden::Golden::FromBytes(objects_.blobs.at(Base().parts.observation_blob));
  ASSERT_TRUE(golden.has_value());
  PromotionParts parts = Base().parts;
  parts.observation_blob = *objects_.Sink().put_blob(
      Rewrite(**golden, [](golden::Content* content) { content->identities["artifact"][0] ^= 1; }, {}));
  EXPECT_EQ(WritePromotion(objects_.Source(), objects_.Sink(), parts).error().code, ErrorCode::kSlmRoot);
}

TEST_F(VerifyTest, AConflictWithoutADecisionIsCaught_LVL_03) {
  PromotionParts parts = Base().parts;
  Node conflict;
  conflict.type = "conflict";
  conflict.metadata = cbor::Map{{"schema", "slm.conflict.v1"},
                                {"code", "TOK-CONFLICT"},
                                {"field", "tokenizer"},
                                {"declarations", cbor::Array{cbor::Map{{"ref", "published"}}}},
                                {"acceptable", true}};
  const Node tree = NodeOf(*NodeOf(Child("acquisition")).Child("source-tree"));
  conflict.edges.push_back({"file", tree.edges[0].child});
  parts.conflicts = {*objects_.Sink().put_node(conflict)};
  const auto promotion = WritePromotion(objects_.Source(), objects_.Sink(), parts);
  ASSERT_TRUE(promotion.has_value()) << promotion.error().ToString();
  receipt_ = promotion->receipt;
  Verification verification = Run();
  EXPECT_TRUE(HasProblem(verification, "DECISION-NEEDED"));
  EXPECT_EQ(StateOf(verification, "conflicts"), ClaimState::kFails);

  const auto settle_with = [&](const std::string& kind, const std::string& choice,
                               std::string_view statement) {
    SetUp();
    objects_.nodes[parts.conflicts[0]] = EncodeNode(conflict);
    Node decision;
    decision.type = "decision";
    decision.metadata = cbor::Map{{"schema", "slm.decision.v1"},
                                  {"kind", kind},
                                  {"reviewer", "R"},
                                  {"reason", "r"},
                                  {"applies_to", cbor::Array{cbor::Value(parts.conflicts[0])}},
                                  {"choice", choice},
                                  {"statement", *objects_.Sink().put_blob(AsBytes(statement))}};
    decision.edges.push_back({"conflict", parts.conflicts[0]});
    parts.decisions = {*objects_.Sink().put_node(decision)};
    const auto settled = WritePromotion(objects_.Source(), objects_.Sink(), parts);
    EXPECT_TRUE(settled.has_value());
    receipt_ = settled->receipt;
    return Run();
  };
  const auto statement_of = [&](const std::string& kind, const std::string& choice,
                                const std::string& reviewer) {
    return R"({"schema":"slm.decision.v1","kind":")" + kind + R"(","reviewer":")" + reviewer +
           R"(","reason":"r","applies_to":[")" + ToHex(parts.conflicts[0]) + R"("],"choice":")" + choice +
           "\"}";
  };
  // A decision is what its statement says, of the kind that settles this conflict, for one of its sides.
  for (const auto& [kind, choice, statement] :
       {std::tuple{"tokenizer", "published", std::string("{}")},
        {"tokenizer", "published", std::string("no statement")},
        {"tokenizer", "published", statement_of("tokenizer", "published", "S")},
        {"tokenizer", "published", statement_of("tokenizer", "effective", "R")},
        {"accept-conflict", "published", statement_of("accept-conflict", "published", "R")},
        {"tokenizer", "neither", statement_of("tokenizer", "neither", "R")}}) {
    verification = settle_with(kind, choice, statement);
    EXPECT_EQ(StateOf(verification, "conflicts"), ClaimState::kFails) << kind << " " << statement;
    EXPECT_FALSE(verification.Holds({}));
  }
  const std::string honest = statement_of("tokenizer", "published", "R");
  verification = settle_with("tokenizer", "published", honest);
  EXPECT_EQ(StateOf(verification, "conflicts"), ClaimState::kHolds);
  EXPECT_TRUE(verification.Holds({}));
  objects_.blobs.erase(Sha256Of(AsBytes(honest)));
  EXPECT_TRUE(HasProblem(Run(), "GRAPH-MISSING-CHILD")) << "the person's statement is gone";
}

// License and conflicts are claimed only by whoever judged the files again.
TEST_F(VerifyTest, TheSourceIsJudgedAgain_ACQ_08_ACQ_12) {
  for (const char* part : {"source", "license", "conflicts"}) {
    judge_ = [part](const Hash256&) {
      return std::optional(SourceFault{part, MakeError(ErrorCode::kLicOther, "judged otherwise")});
    };
    const Verification verification = Run();
    EXPECT_EQ(StateOf(verification, part), ClaimState::kFails) << part;
    EXPECT_FALSE(verification.Holds({}));
    EXPECT_FALSE(verification.Holds({"L7"})) << "levels rest on it";
  }
  judge_ = [](const Hash256&) {
    return std::optional(SourceFault{"license", MakeError(ErrorCode::kUnsupported, "other tables")});
  };
  EXPECT_EQ(StateOf(Run(), "license"), ClaimState::kNotClaimed);
  judge_ = nullptr;
  const Verification unjudged = Run();
  EXPECT_EQ(StateOf(unjudged, "license"), ClaimState::kNotClaimed);
  EXPECT_EQ(StateOf(unjudged, "conflicts"), ClaimState::kNotClaimed);
}

// Nodes that the artifact itself contradicts.
TEST_F(VerifyTest, AnotherSourceOrFamilyProfileIsCaught_ID_07) {
  for (const auto& [role, key, value] : {std::tuple{"acquisition", "name", cbor::Value("other")},
                                         {"acquisition", "revision", cbor::Value("r2")},
                                         {"acquisition", "flags", cbor::Value(cbor::Array{"none"})},
                                         {"family-profile", "sha256", cbor::Value(Hash256{})},
                                         {"family-profile", "version", cbor::Value(7)},
                                         {"family-profile", "pinned_source", cbor::Value("transformers 4")},
                                         {"family-profile", "reviewer", cbor::Value("me")}}) {
    SetUp();
    Node node = NodeOf(Child(role));
    node.metadata.Set(key, value);
    Replace(Child(role), node);
    const Verification verification = Run();
    EXPECT_EQ(StateOf(verification, "artifact"), ClaimState::kFails) << role << " " << key;
    EXPECT_FALSE(verification.Holds({})) << role << " " << key;
  }
}

TEST_F(VerifyTest, AnotherTokenizerReferenceIsNotClaimed_TOK_01) {
  Node node = NodeOf(Child("tokenizer"));
  node.metadata.Set("reference", "x");
  Replace(Child("tokenizer"), node);
  EXPECT_EQ(StateOf(Run(), "tokenizer"), ClaimState::kNotClaimed);
}

// Running again shows who made the observations only if the executable is the one that is named (LVL-05).
TEST_F(VerifyTest, ARerunByAnotherBuildLeavesTheItemOpen_BKD_03_LVL_05) {
  const auto is_open = [](const Verification& verification) {
    const std::vector<OpenItem> items = OpenItems(verification);
    return std::any_of(items.begin(), items.end(), [](const OpenItem& item) {
      return item.what.starts_with("that the named executable made these observations");
    });
  };
  Verification verification = Run();
  EXPECT_TRUE(is_open(verification));
  RuntimeBuild running = Base().parts.build;
  ClaimRerunBuild(running, &verification);
  EXPECT_EQ(StateOf(verification, kRerunBuildClaim), ClaimState::kHolds);
  EXPECT_FALSE(is_open(verification));

  verification = Run();
  running.executable_sha256[0] ^= 1;
  ClaimRerunBuild(running, &verification);
  EXPECT_EQ(StateOf(verification, kRerunBuildClaim), ClaimState::kNotClaimed);
  EXPECT_TRUE(is_open(verification));

  for (const char* key : {"compiler", "flags", "version"}) {
    SetUp();
    Node node = NodeOf(Child("runtime-build"));
    node.metadata.Set(key, "forged");
    Replace(Child("runtime-build"), node);
    verification = Run();
    ClaimRerunBuild(Base().parts.build, &verification);
    EXPECT_EQ(StateOf(verification, kRerunBuildClaim), ClaimState::kFails) << key;
    EXPECT_FALSE(verification.Holds({})) << key;
  }
}

// A name from outside is no line of the output and moves no cursor.
TEST_F(VerifyTest, NamesCannotWriteLines_ID_04) {
  Node node = NodeOf(Child("acquisition"));
  node.metadata.Set("name", "x\n  L7         holds\x1b[2J");
  Replace(Child("acquisition"), node);
  Verification verification = Run();
  verification.claims.push_back({"L5", ClaimState::kFails, "a\nb\x1b[2J", "", ""});
  verification.problems.push_back({"X", "", "f\r", "w\x07"});
  const std::string text = VerificationToText(verification);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find('\x07'), std::string::npos);
  EXPECT_EQ(text.find("\n  L7         holds\\"), std::string::npos);
  EXPECT_NE(text.find("a\\x0Ab"), std::string::npos) << text;
}

// Profile, license tables and statements are evidence like any other blob. The keys are those of
// docs/spec/acquisition.md and decisions.md.
TEST_F(VerifyTest, EveryBlobOfAcquisitionIsFollowed) {
  for (const char* text : {"profile", "cards", "texts"}) {
    SetUp();
    ASSERT_TRUE(Run().problems.empty());
    ASSERT_EQ(objects_.blobs.erase(Sha256Of(AsBytes(text))), 1u);
    EXPECT_TRUE(HasProblem(Run(), "GRAPH-MISSING-CHILD")) << text;
    SetUp();
    objects_.blobs.at(Sha256Of(AsBytes(text)))[0] ^= 1;
    EXPECT_TRUE(HasProblem(Run(), "FSCK-HASH")) << text;
  }
}

// Puts a container in place of the first oracle run or of the observations, with its envelope's hash.
class ForgeTest : public VerifyTest {
 protected:
  std::shared_ptr<const golden::Golden> Container(const Hash256& blob) {
    return *golden::Golden::FromBytes(objects_.blobs.at(blob));
  }
  void PutUnder(std::string_view role, const Bytes& bytes) {
    const auto opened = golden::Golden::FromBytes(bytes);
    ASSERT_TRUE(opened.has_value()) << opened.error().ToString();
    Node node = NodeOf(Child(role));
    node.metadata.Set("blob", *objects_.Sink().put_blob(bytes));
    node.metadata.Set("envelope_sha256", (*opened)->envelope_sha256());
    Replace(Child(role), node);
  }
  void ExpectCaught(std::string_view code, std::string_view field) {
    const Verification verification = Run();
    EXPECT_FALSE(verification.Holds({}));
    const bool found = std::any_of(verification.problems.begin(), verification.problems.end(),
                                   [&](const Problem& p) { return p.code == code && p.field == field; });
    EXPECT_TRUE(found) << VerificationToText(verification);
  }
};

TEST_F(ForgeTest, ALevelThatWasDroppedIsCaught_LVL_01) {
  for (const std::string_view role : {"comparison", "promotion"}) {
    const Hash256 id = role == "promotion" ? receipt_ : Child(role);
    Node node = NodeOf(id);
    cbor::Map kept;
    for (const auto& [key, value] : *node.metadata.Find("verdicts")->AsMap()) {
      if (key != "l5") kept.Set(key, value);
    }
    node.metadata.Set("verdicts", kept);
    Replace(id, node);
  }
  const Verification verification = Run();
  EXPECT_FALSE(verification.Holds({}));
  EXPECT_NE(verification.Find("L5"), nullptr) << "recomputed, whatever the receipt lists";
}

// Another case under the suite's place; fewer cases: tests/promote/forge_test.py.
TEST_F(ForgeTest, EvidenceThatRanAnotherCaseIsCaught) {
  const std::string id = Container(Base().parts.evidence_blobs[0])->cases()[0].case_id;
  const auto rename = [](golden::Content* content) { content->cases[0].case_id = "easier"; };
  PromotionParts parts = Base().parts;
  const Bytes other = Rewrite(*Container(parts.evidence_blobs[0]), rename, {});
  parts.evidence_blobs[0] = *objects_.Sink().put_blob(other);
  const auto refused = WritePromotion(objects_.Source(), objects_.Sink(), parts);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().field, id);
  PutUnder("oracle-run", other);
  ExpectCaught("GRAPH-SCHEMA", id);
}

TEST_F(ForgeTest, ObservationsOfAnotherCaseAreCaught) {
  const std::string id = Container(Base().parts.observation_blob)->cases()[0].case_id;
  PutUnder("observation",
           Rewrite(*Container(Base().parts.observation_blob),
                   [](golden::Content* content) { content->cases[0].case_id = "easier"; }, {}));
  ExpectCaught("GRAPH-SCHEMA", id);
}

TEST_F(ForgeTest, AnotherInputUnderACaseIdIsCaught) {
  const auto easier = [](golden::Content* content) {
    golden::Case& one = content->cases.back();
    one.max_new_tokens = 0;
    one.generation.reset();
    one.raw_output_commitment.reset();
  };
  const std::string id = Container(Base().parts.observation_blob)->cases().back().case_id;
  ASSERT_GT(Container(Base().parts.observation_blob)->cases().back().max_new_tokens, 0u);
  PutUnder("observation", Rewrite(*Container(Base().parts.observation_blob), easier, {}));
  ExpectCaught("GRAPH-SCHEMA", id);
}

TEST_F(ForgeTest, ATruthThatIsTheReferenceAgainIsCaught_ORA_02) {
  const Bytes relabelled = Rewrite(*Container(Base().parts.evidence_blobs[0]),
                                   [](golden::Content* content) {
                                     content->mode = golden::Mode::kTruth;
                                     content->generator.Set("mode", "truth");
                                   },
                                   {});
  PromotionParts parts = Base().parts;
  parts.evidence_blobs.push_back(*objects_.Sink().put_blob(relabelled));
  const auto refused = WritePromotion(objects_.Source(), objects_.Sink(), parts);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kGldSchema);
}

// Parity with a framework that the profile does not pin, or that ran with less precision, is no parity.
TEST_F(ForgeTest, EvidenceOfAnotherFrameworkIsCaught_ORA_01_ORA_02) {
  struct Said {
    const char* map;
    const char* inner;  // empty: the key stands in `map` itself
    const char* key;
    cbor::Value value;
  };
  const Said said[] = {{"environment", "versions", "transformers", "4.40.0"},
                       {"environment", "versions", "tokenizers", "0.15.0"},
                       {"framework", "", "attention", "sdpa"},
                       {"framework", "", "tf32_matmul", true},
                       {"framework", "", "tf32_cudnn", true},
                       {"framework", "", "matmul_precision", "high"},
                       {"framework", "", "deterministic_algorithms", false},
                       {"framework", "", "dtype", "bf16"}};
  for (const Said& one : said) {
    SetUp();
    const std::string inner = *one.inner == 0 ? "" : std::string(one.inner) + ".";
    const std::string field = std::string("generator.") + one.map + "." + inner + one.key;
    const Bytes other = Rewrite(*Container(Base().parts.evidence_blobs[0]),
                                [&one](golden::Content* content) {
                                  cbor::Map map = *content->generator.Find(one.map)->AsMap();
                                  if (*one.inner == 0) {
                                    map.Set(one.key, one.value);
                                  } else {
                                    cbor::Map below = *map.Find(one.inner)->AsMap();
                                    below.Set(one.key, one.value);
                                    map.Set(one.inner, std::move(below));
                                  }
                                  content->generator.Set(one.map, std::move(map));
                                },
                                {});
    PromotionParts parts = Base().parts;
    parts.evidence_blobs[0] = *objects_.Sink().put_blob(other);
    const auto refused = WritePromotion(objects_.Source(), objects_.Sink(), parts);
    ASSERT_FALSE(refused.has_value()) << field;
    EXPECT_EQ(refused.error().field, field);
    PutUnder("oracle-run", other);
    ExpectCaught("GRAPH-SCHEMA", field);
  }
}

TEST_F(ForgeTest, EvidenceOfTwoExportersIsRefused_ORA_01) {
  PromotionParts parts = Base().parts;
  ASSERT_EQ(parts.evidence_blobs.size(), 2u);
  const auto export_again = [](golden::Content* content) {
    content->generator.Set("exporter_sha256", Hash256{9});
  };
  parts.evidence_blobs[1] =
      *objects_.Sink().put_blob(Rewrite(*Container(parts.evidence_blobs[1]), export_again, {}));
  const auto refused = WritePromotion(objects_.Source(), objects_.Sink(), parts);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().field, "generator.exporter_sha256");
}

TEST_F(ForgeTest, ObservationsUnderAnotherBackendAreCaught) {
  Node backend = NodeOf(Child("backend-profile"));
  backend.metadata.Set("name", "native-avx512");
  Replace(Child("backend-profile"), backend);
  Node promotion = NodeOf(receipt_);
  promotion.metadata.Set("backend", "native-avx512");
  Replace(receipt_, promotion);
  ExpectCaught("GRAPH-SCHEMA", "backend");
}

TEST_F(ForgeTest, ALooserPolicyUnderTheNameOfAShippedOneIsCaught_TOL_03) {
  const auto shipped = compare::ShippedPolicyFor(Hash256{}, "native-scalar");
  ASSERT_TRUE(shipped.has_value());
  std::string text = PolicyText();
  text.replace(text.find("\"name\":\"tiny\",\"version\":1"), 25,
               "\"name\":\"" + shipped->name + "\",\"version\":" + std::to_string(shipped->version));
  PromotionParts parts = Base().parts;
  parts.policy_json = ToBytes(text);
  const auto refused = WritePromotion(objects_.Source(), objects_.Sink(), parts);
  ASSERT_FALSE(refused.has_value()) << "promote writes no receipt that verify refuses";
  EXPECT_EQ(refused.error().code, ErrorCode::kGraphPolicy);
  Node policy = NodeOf(Child("tolerance-policy"));
  policy.metadata.Set("blob", *objects_.Sink().put_blob(AsBytes(text)));
  policy.metadata.Set("name", shipped->name);
  policy.metadata.Set("version", shipped->version);
  Replace(Child("tolerance-policy"), policy);
  ExpectCaught("GRAPH-POLICY", "blob");
}

TEST_F(ForgeTest, AConflictOfTheAcquisitionCannotBeLeftOut) {
  Node conflict;
  conflict.type = "conflict";
  conflict.metadata = cbor::Map{{"schema", "slm.conflict.v1"},
                                {"code", "CFG-CONFLICT"},
                                {"field", "eos_token_id"},
                                {"declarations", cbor::Array{}},
                                {"acceptable", true}};
  conflict.edges.push_back(
      {"file", NodeOf(*NodeOf(Child("acquisition")).Child("source-tree")).edges[0].child});
  Node acquisition = NodeOf(Child("acquisition"));
  acquisition.edges.push_back({"conflict", *objects_.Sink().put_node(conflict)});
  Replace(Child("acquisition"), acquisition);
  ExpectCaught("GRAPH-MISSING-CHILD", "conflict");
}

TEST_F(ForgeTest, ATokenizerDifferenceOfTheEvidenceCannotBeLeftOut) {
  PutUnder("oracle-run", Rewrite(*Container(Base().parts.evidence_blobs[0]),
                                 [](golden::Content* content) {
                                   content->tokenizer.Set("first_difference",
                                                          cbor::Map{{"text", Bytes{'1'}}});
                                 },
                                 {}));
  ExpectCaught("GRAPH-MISSING-CHILD", "conflict");
}

TEST_F(ForgeTest, ObservationsThatContradictThemselvesAreCaught) {
  PutUnder("observation", Rewrite(*Container(Base().parts.observation_blob), {},
                                  [](const std::string&, const std::string& name, Bytes* bytes) {
                                    if (name == "top_k.values")
                                      std::swap_ranges(bytes->begin(), bytes->begin() + 4,
                                                       bytes->begin() + 4);
                                  }));
  const Verification verification = Run();
  EXPECT_EQ(StateOf(verification, "observations"), ClaimState::kFails);
  EXPECT_FALSE(verification.Holds({}));
  EXPECT_FALSE(verification.Holds({"L9"})) << "a level rests on the observations";
}

TEST_F(ForgeTest, WhatIsOpenIsListedWithWhatSettlesIt_LVL_05) {
  const Verification verification = Run();
  const std::vector<OpenItem> items = OpenItems(verification);
  const auto mentions = [&items](std::string_view text) {
    return std::any_of(items.begin(), items.end(), [text](const OpenItem& item) {
      return item.what.find(text) != std::string::npos && !item.settled_by.empty();
    });
  };
  for (const char* text : {"GPU", "Safari", "ARM", "publisher", "truth: not claimed", "L8: not claimed"})
    EXPECT_TRUE(mentions(text)) << text;
  EXPECT_FALSE(mentions("L5:")) << "what is shown is not open";
  EXPECT_NE(VerificationToText(verification).find("open: "), std::string::npos);
  EXPECT_NE(VerificationToJson(verification).find("\"open_items\""), std::string::npos);
}

TEST_F(VerifyTest, UnknownKeysAndRolesAreCaught_H06) {
  Node node = NodeOf(Child("backend-profile"));
  node.metadata.Set("note", "x");
  Replace(Child("backend-profile"), node);
  EXPECT_TRUE(HasProblem(Run(), "GRAPH-SCHEMA"));
  SetUp();
  Node promotion = NodeOf(receipt_);
  promotion.edges.push_back({"extra", Child("artifact")});
  Replace(receipt_, promotion);
  EXPECT_TRUE(HasProblem(Run(), "GRAPH-SCHEMA"));
}

TEST_F(VerifyTest, OnlyAPromotionIsAReceipt) {
  EXPECT_EQ(evidence::Verify(objects_.Source(), Child("artifact"), judge_).error().code,
            ErrorCode::kNodeType);
  EXPECT_EQ(evidence::Verify(objects_.Source(), Hash256{}, judge_).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace slm::evidence
