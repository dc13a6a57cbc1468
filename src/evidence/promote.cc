#include "evidence/promote.h"

#include <algorithm>

#include "codec/sha256.h"
#include "compare/policy.h"
#include "evidence/bindings.h"
#include "evidence/receipt.h"

namespace slm::evidence {
namespace {

Node MakeNode(std::string type, std::string_view schema, cbor::Map metadata, std::vector<Edge> edges = {}) {
  metadata.Set("schema", schema);
  return Node{.type = std::move(type), .metadata = std::move(metadata), .edges = std::move(edges)};
}

// Writes the nodes of one promotion and remembers them.
class Writer {
 public:
  Writer(const ObjectSource& source, const ObjectSink& sink, const PromotionParts& parts)
      : source_(source), sink_(sink), parts_(parts) {}

  Result<Promotion> Run() {
    SLM_ASSIGN(acquisition_, ReadNode(source_, parts_.acquisition));
    SLM_ASSIGN(files_, FilesOfAcquisition(source_, acquisition_));
    SLM_TRY(ReadArtifact());
    SLM_TRY(WriteEnvironment());
    SLM_TRY(WriteSuiteAndPolicy());
    SLM_TRY(WriteObservation());
    SLM_TRY(WriteEvidence());
    SLM_TRY(WriteComparison());
    SLM_TRY(WriteReceipt());
    return std::move(promotion_);
  }

 private:
  // Puts a node and adds it to the promotion's edges under its type.
  Result<Hash256> Put(const Node& node) {
    SLM_ASSIGN(const Hash256 id, sink_.put_node(node));
    promotion_.nodes.push_back(id);
    if (node.type != "promotion") edges_.push_back({node.type, id});
    return id;
  }

  // Conversion wrote the artifact's node and those below it.
  Status ReadArtifact() {
    SLM_ASSIGN(const Node node, ReadNode(source_, parts_.artifact_node));
    artifact_blob_ = HashOf(node, "file_sha256");
    SLM_ASSIGN(Bytes bytes, ReadBlob(source_, artifact_blob_));
    SLM_ASSIGN(const auto artifact, Artifact::FromBytes(std::move(bytes), slm::Verify::kAllChunks));
    root_ = artifact->root();
    SLM_ASSIGN(cases_, ParseCases(AsText(parts_.cases)));
    SLM_ASSIGN(subject_, SubjectOf(*artifact, cases_));
    for (std::string_view role :
         {"tokenizer", "template", "effective-config", "tensor-ledger", "family-profile"}) {
      if (const Hash256* child = node.Child(role)) edges_.push_back({std::string(role), *child});
    }
    edges_.push_back({"artifact", parts_.artifact_node});
    for (std::string_view role : {"effective-config", "tensor-ledger"}) {
      if (node.Child(role) == nullptr) {
        return Fail(
            MakeError(ErrorCode::kGraphMissingChild, "the artifact's node lacks a child").Field(role));
      }
    }
    SLM_ASSIGN(const Node config, ReadNode(source_, *node.Child("effective-config")));
    SLM_ASSIGN(const Node ledger, ReadNode(source_, *node.Child("tensor-ledger")));
    SLM_TRY(CheckArtifactNodes(*artifact, node, config, ledger));
    if (node.Child("family-profile") == nullptr) {
      return Fail(MakeError(ErrorCode::kGraphMissingChild, "the artifact's node lacks a child")
                      .Field("family-profile"));
    }
    SLM_ASSIGN(const Node profile, ReadNode(source_, *node.Child("family-profile")));
    SLM_TRY(CheckSourceOfArtifact(parts_.acquisition, acquisition_, profile, *artifact));
    std::optional<Node> tokenizer;
    if (const Hash256* id = node.Child("tokenizer")) {
      SLM_ASSIGN(tokenizer, ReadNode(source_, *id));
    }
    pin_ = PinOf(&profile, tokenizer ? &*tokenizer : nullptr);
    return CheckFilesOfArtifact(files_, *artifact);
  }

  Status WriteEnvironment() {
    SLM_ASSIGN(build_, Put(RuntimeBuildNode(parts_.build)));
    backend_node_ = BackendNode(parts_.backend);
    SLM_ASSIGN(backend_, Put(backend_node_));
    return {};
  }

  Status WriteSuiteAndPolicy() {
    SLM_ASSIGN(policy_, compare::ParsePolicy(AsText(parts_.policy_json)));
    SLM_TRY(CheckPolicyName(policy_));
    SLM_ASSIGN(const Hash256 policy, sink_.put_blob(parts_.policy_json));
    SLM_ASSIGN(policy_node_,
               Put(MakeNode("tolerance-policy", "slm.tolerance-policy-node.v1",
                            {{"blob", policy}, {"name", policy_.name}, {"version", policy_.version}})));
    SLM_ASSIGN(cases_blob_, sink_.put_blob(parts_.cases));
    SLM_ASSIGN(suite_, Put(MakeNode("case-suite", "slm.case-suite.v1",
                                    {{"blob", cases_blob_}, {"n_cases", cases_.size()}})));
    return {};
  }

  Status WriteObservation() {
    SLM_ASSIGN(candidate_, OpenGoldenBlob(source_, parts_.observation_blob));
    SLM_TRY(CheckCandidateOfArtifact(root_, *candidate_));
    SLM_TRY(CheckCandidateOfBackend(backend_node_, cases_blob_, *candidate_));
    SLM_TRY(CheckCasesOfContainer(cases_, *candidate_));
    cbor::Map metadata{{"blob", parts_.observation_blob},
                       {"artifact_blob", artifact_blob_},
                       {"envelope_sha256", candidate_->envelope_sha256()}};
    if (parts_.engine) metadata.Set("engine", *parts_.engine);
    SLM_ASSIGN(observation_, Put(MakeNode("observation", "slm.observation.v1", std::move(metadata),
                                          {{"artifact", parts_.artifact_node},
                                           {"runtime-build", build_},
                                           {"backend-profile", backend_},
                                           {"case-suite", suite_}})));
    return {};
  }

  Status WriteEvidence() {
    SLM_ASSIGN(evidence_, OpenEvidenceBlobs(source_, parts_.evidence_blobs));
    for (size_t i = 0; i < evidence_.containers.size(); ++i) {
      const golden::Golden& container = *evidence_.containers[i];
      SLM_TRY(CheckEvidenceOfPin(pin_, container));
      SLM_TRY(CheckSameExporter(*evidence_.containers.front(), container));
      SLM_TRY(CheckEvidenceOfSource(files_, container));
      SLM_TRY(CheckEvidenceOfCases(cases_blob_, container));
      SLM_TRY(CheckCasesOfContainer(cases_, container));
      SLM_ASSIGN(const Hash256 id, Put(MakeNode("oracle-run", "slm.oracle-run.v1",
                                                {{"blob", parts_.evidence_blobs[i]},
                                                 {"mode", golden::ModeName(container.mode())},
                                                 {"envelope_sha256", container.envelope_sha256()}})));
      oracle_runs_.push_back({"oracle-run", id});
    }
    return {};
  }

  Status WriteComparison() {
    if (oracle_runs_.empty()) {
      promotion_.comparison = compare::CompareWithoutEvidence(subject_, *candidate_, policy_);
      return {};
    }
    SLM_ASSIGN(promotion_.comparison, compare::Compare(evidence_.sorted, *candidate_, policy_));
    SLM_ASSIGN(const Hash256 blob,
               sink_.put_blob(cbor::Encode(compare::EncodeComparison(promotion_.comparison))));
    std::vector<Edge> below = {{"tolerance-policy", policy_node_}, {"observation", observation_}};
    below.insert(below.end(), oracle_runs_.begin(), oracle_runs_.end());
    SLM_TRY(
        Put(MakeNode("comparison", "slm.comparison-node.v1",
                     {{"blob", blob}, {"verdicts", VerdictsOf(promotion_.comparison)}}, std::move(below))));
    return {};
  }

  Status WriteReceipt() {
    std::vector<Edge> edges = {{"acquisition", parts_.acquisition},
                               {"license-decision", parts_.license_decision}};
    edges.insert(edges.end(), edges_.begin(), edges_.end());
    for (const Hash256& id : parts_.conflicts) edges.push_back({"conflict", id});
    for (const Hash256& id : parts_.decisions) edges.push_back({"decision", id});
    const cbor::Map verdicts = VerdictsOf(promotion_.comparison);
    SLM_ASSIGN(promotion_.receipt,
               Put(MakeNode("promotion", "slm.promotion.v1",
                            {{"verdicts", verdicts}, {"backend", parts_.backend.name}}, std::move(edges))));
    return {};
  }

  const ObjectSource& source_;
  const ObjectSink& sink_;
  const PromotionParts& parts_;
  Promotion promotion_;
  std::vector<Edge> edges_;
  std::vector<Edge> oracle_runs_;
  Node acquisition_;
  SourceFiles files_;
  OraclePin pin_;
  std::vector<CaseSpec> cases_;
  compare::Subject subject_;
  Node backend_node_;
  Hash256 root_{}, artifact_blob_{}, build_{}, backend_{}, policy_node_{}, cases_blob_{}, suite_{},
      observation_{};
  compare::Policy policy_;
  OpenEvidence evidence_;
  std::shared_ptr<const golden::Golden> candidate_;
};

}  // namespace

bool Promotion::Holds() const {
  const auto fine = [](compare::Verdict verdict) {
    return verdict == compare::Verdict::kPass || verdict == compare::Verdict::kNotClaimed;
  };
  return fine(comparison.truth.verdict) &&
         std::all_of(comparison.levels.begin(), comparison.levels.end(),
                     [&fine](const compare::LevelResult& level) { return fine(level.verdict); });
}

Status CheckPolicyName(const compare::Policy& policy) {
  const auto shipped = compare::ShippedPolicyHash(policy.name, policy.version);
  if (!shipped || *shipped == policy.file_sha256) return {};
  return Fail(MakeError(ErrorCode::kGraphPolicy, policy.name + " version " + std::to_string(policy.version) +
                                                     ", " + ToHex(policy.file_sha256).substr(0, 12) +
                                                     " is not the policy of this name and version, " +
                                                     ToHex(*shipped).substr(0, 12) +
                                                     "; a changed limit needs a new version")
                  .Field("blob"));
}

Result<PromotionParts> PartsOfPromotion(const ObjectSource& source, const Hash256& promotion) {
  SLM_ASSIGN(const Node node, ReadNode(source, promotion));
  if (node.type != "promotion")
    return Fail(MakeError(ErrorCode::kNodeType, "a " + node.type + ", no promotion").Field("type"));
  const auto child = [&node](std::string_view role) -> Result<Hash256> {
    if (const Hash256* id = node.Child(role)) return *id;
    return Fail(MakeError(ErrorCode::kGraphMissingChild, "the promotion lacks a child").Field(role));
  };
  const auto blob_below = [&](std::string_view role) -> Result<Hash256> {
    SLM_ASSIGN(const Hash256 id, child(role));
    SLM_ASSIGN(const Node below, ReadNode(source, id));
    return HashOf(below, "blob");
  };
  PromotionParts parts;
  SLM_ASSIGN(parts.acquisition, child("acquisition"));
  SLM_ASSIGN(parts.license_decision, child("license-decision"));
  SLM_ASSIGN(parts.artifact_node, child("artifact"));
  parts.conflicts = node.Children("conflict");
  parts.decisions = node.Children("decision");
  SLM_ASSIGN(const Hash256 policy, blob_below("tolerance-policy"));
  SLM_ASSIGN(parts.policy_json, ReadBlob(source, policy));
  SLM_ASSIGN(const Hash256 cases, blob_below("case-suite"));
  SLM_ASSIGN(parts.cases, ReadBlob(source, cases));
  for (const Hash256& run : node.Children("oracle-run")) {
    SLM_ASSIGN(const Node below, ReadNode(source, run));
    parts.evidence_blobs.push_back(HashOf(below, "blob"));
  }
  return parts;
}

Result<Promotion> WritePromotion(const ObjectSource& source, const ObjectSink& sink,
                                 const PromotionParts& parts) {
  return Writer(source, sink, parts).Run();
}

}  // namespace slm::evidence
