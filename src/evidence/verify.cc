#include "evidence/verify.h"

#include <algorithm>

#include "codec/sha256.h"
#include "compare/policy.h"
#include "evidence/bindings.h"
#include "evidence/promote.h"
#include "evidence/receipt.h"
#include "evidence/self_check.h"
#include "evidence/walk.h"
#include "identity/statement.h"
#include "model/family_profile.h"
#include "tokenizer/tokenizer.h"

namespace slm::evidence {
namespace {

std::string Short(const Hash256& id) {
  return ToHex(id).substr(0, 12);
}

ClaimState StateOf(compare::Verdict verdict) {
  switch (verdict) {
    case compare::Verdict::kPass:
      return ClaimState::kHolds;
    case compare::Verdict::kUnstable:
      return ClaimState::kUnstable;
    case compare::Verdict::kNotClaimed:
      return ClaimState::kNotClaimed;
    case compare::Verdict::kFail:
    case compare::Verdict::kError:
      break;
  }
  return ClaimState::kFails;
}

// The verification of one promotion after its graph was walked.
class Verifier {
 public:
  Verifier(const ObjectSource& source, const SourceJudge& judge, Verification* out)
      : source_(source), judge_(judge), out_(*out) {}

  void Run() {
    const Node& promotion = out_.nodes.at(out_.receipt);
    CheckEdgesAgree(promotion);
    ClaimGraph();
    JudgeSource(promotion);
    ClaimSource(promotion);
    ClaimLicense(promotion);
    ClaimConflicts(promotion);
    ClaimArtifact(promotion);
    ClaimFamilyProfile(promotion);
    ClaimTokenizer(promotion);
    Recompute(promotion);
    ClaimPolicy(promotion);
    ClaimObservations(promotion);
    ClaimLevels(promotion);
  }

 private:
  const Node* NodeAt(const Hash256& id) const {
    const auto found = out_.nodes.find(id);
    return found == out_.nodes.end() ? nullptr : &found->second;
  }
  const Node* ChildOf(const Node& node, std::string_view role) const {
    const Hash256* id = node.Child(role);
    return id == nullptr ? nullptr : NodeAt(*id);
  }
  std::string ChildHex(const Node& node, std::string_view role) const {
    const Hash256* id = node.Child(role);
    return id == nullptr ? "" : ToHex(*id);
  }
  void Report(const Error& error, std::string node) {
    out_.problems.push_back({error.CodeText(), std::move(node), error.field, error.message});
  }
  void Add(std::string name, ClaimState state, std::string detail, std::string node, std::string code = "") {
    out_.claims.push_back({std::move(name), state, std::move(detail), std::move(node), std::move(code)});
  }

  // `role` of `inner` must name the same nodes as `role` of the promotion.
  void RequireSame(const Node& promotion, std::string_view inner_role, std::string_view role,
                   ErrorCode code) {
    const Node* inner = ChildOf(promotion, inner_role);
    if (inner == nullptr || inner->Children(role) == promotion.Children(role)) return;
    Report(MakeError(code, "the " + std::string(inner_role) + " has another " + std::string(role) +
                               " than the receipt")
               .Field(role),
           ChildHex(promotion, inner_role));
  }

  void CheckEdgesAgree(const Node& promotion) {
    RequireSame(promotion, "comparison", "tolerance-policy", ErrorCode::kGraphPolicy);
    RequireSame(promotion, "comparison", "observation", ErrorCode::kGraphSchema);
    RequireSame(promotion, "comparison", "oracle-run", ErrorCode::kGraphSchema);
    for (std::string_view role : {"artifact", "runtime-build", "backend-profile", "case-suite"}) {
      RequireSame(promotion, "observation", role, ErrorCode::kGraphSchema);
    }
    for (std::string_view role :
         {"acquisition", "effective-config", "tensor-ledger", "family-profile", "tokenizer", "template"}) {
      RequireSame(promotion, "artifact", role, ErrorCode::kGraphSchema);
    }
    for (std::string_view inner : {"effective-config", "tensor-ledger", "tokenizer", "template"}) {
      RequireSame(promotion, inner, "acquisition", ErrorCode::kGraphSchema);
    }
    RequireSame(promotion, "effective-config", "family-profile", ErrorCode::kGraphSchema);
    RequireSame(promotion, "tensor-ledger", "effective-config", ErrorCode::kGraphSchema);
    RequireConflictsOf(promotion);
    const bool has_evidence = promotion.Child("oracle-run") != nullptr;
    if (has_evidence != (promotion.Child("comparison") != nullptr)) {
      Report(MakeError(ErrorCode::kGraphMissingChild, "evidence and comparison stand together or not at all")
                 .Field(has_evidence ? "comparison" : "oracle-run"),
             ToHex(out_.receipt));
    }
  }

  // License and conflicts are those of the acquisition: a receipt cannot leave one out.
  void RequireConflictsOf(const Node& promotion) {
    const Node* acquisition = ChildOf(promotion, "acquisition");
    if (acquisition == nullptr) return;
    const auto missing = [&](std::string_view role) {
      Report(MakeError(ErrorCode::kGraphMissingChild,
                       "the receipt leaves out a " + std::string(role) + " of its acquisition")
                 .Field(role),
             ToHex(out_.receipt));
    };
    if (acquisition->Children("license") != promotion.Children("license-decision"))
      missing("license-decision");
    for (std::string_view role : {"conflict", "decision"}) {
      const std::vector<Hash256> held = promotion.Children(role);
      for (const Hash256& id : acquisition->Children(role)) {
        if (std::find(held.begin(), held.end(), id) == held.end()) missing(role);
      }
    }
  }

  // Files and statements judged again; the claims of source, license and conflicts rest on it.
  void JudgeSource(const Node& promotion) {
    const Hash256* acquisition = promotion.Child("acquisition");
    if (acquisition == nullptr || NodeAt(*acquisition) == nullptr || !judge_) return;
    fault_ = judge_(*acquisition);
    if (fault_ && fault_->error.code != ErrorCode::kUnsupported) Report(fault_->error, ToHex(*acquisition));
  }

  // Adds `claim` if the judge keeps it from holding. What follows the part at fault was not reached.
  bool ClaimedByJudge(std::string_view claim, const std::string& id) {
    if (!judge_) {
      Add(std::string(claim), ClaimState::kNotClaimed,
          "not judged again: nothing here reads the source's files", id);
      return true;
    }
    if (!fault_) return false;
    if (fault_->error.code != ErrorCode::kUnsupported && fault_->claim == claim) {
      Add(std::string(claim), ClaimState::kFails, fault_->error.message, id, fault_->error.CodeText());
    } else {
      Add(std::string(claim), ClaimState::kNotClaimed, "not judged again: " + fault_->error.message, id);
    }
    return true;
  }

  void ClaimGraph() {
    const std::string detail = std::to_string(out_.n_nodes) + " nodes, " + std::to_string(out_.n_blobs) +
                               " blobs, " + std::to_string(out_.n_bytes) + " bytes re-hashed";
    if (out_.problems.empty()) {
      Add("graph", ClaimState::kHolds, detail, ToHex(out_.receipt));
      return;
    }
    const Problem& first = out_.problems.front();
    Add("graph", ClaimState::kFails, first.what, first.node, first.code);
  }

  void ClaimSource(const Node& promotion) {
    const Node* acquisition = ChildOf(promotion, "acquisition");
    const std::string id = ChildHex(promotion, "acquisition");
    if (acquisition == nullptr)
      return Add("source", ClaimState::kFails, "the acquisition is absent", id, "GRAPH-MISSING-CHILD");
    auto files = FilesOfAcquisition(source_, *acquisition);
    if (!files.has_value()) {
      Report(files.error(), id);
      return Add("source", ClaimState::kFails, files.error().message, id, files.error().CodeText());
    }
    files_ = *std::move(files);
    if (fault_ && fault_->claim == "source" && ClaimedByJudge("source", id)) return;
    Add("source", ClaimState::kHolds,
        TextOf(*acquisition, "name") + " at " + TextOf(*acquisition, "revision") + ", " +
            std::to_string(files_.size()) +
            " files by SHA-256; name and revision as declared, no publisher signature",
        id);
  }

  void ClaimLicense(const Node& promotion) {
    const Node* license = ChildOf(promotion, "license-decision");
    const std::string id = ChildHex(promotion, "license-decision");
    if (license == nullptr) {
      return Add("license", ClaimState::kFails, "the license decision is absent", id, "GRAPH-MISSING-CHILD");
    }
    if (ClaimedByJudge("license", id)) return;
    Add("license", ClaimState::kHolds,
        TextOf(*license, "spdx") + ", judged again from the source's files" +
            (license->Child("decision") != nullptr || license->Child("conflict") != nullptr
                 ? " and a person's statement"
                 : ""),
        id);
  }

  // Whether the decision says what its statement says, and settles this conflict with one of its sides.
  [[nodiscard]] static bool Settles(const Node& decision, const Hash256& id, const Node& conflict) {
    const std::vector<Hash256> settled = decision.Children("conflict");
    if (std::find(settled.begin(), settled.end(), id) == settled.end()) return false;
    const bool is_tokenizer = TextOf(conflict, "code") == Info(ErrorCode::kTokConflict).name;
    if (TextOf(decision, "kind") != (is_tokenizer ? "tokenizer" : "accept-conflict")) return false;
    const cbor::Value* acceptable = conflict.metadata.Find("acceptable");
    if (acceptable == nullptr || *acceptable != cbor::Value(true)) return false;
    const cbor::Value* declarations = conflict.metadata.Find("declarations");
    if (declarations == nullptr || declarations->AsArray() == nullptr) return false;
    const std::string choice = TextOf(decision, "choice");
    return std::any_of(declarations->AsArray()->begin(), declarations->AsArray()->end(),
                       [&choice](const cbor::Value& declaration) {
                         const cbor::Map* map = declaration.AsMap();
                         const cbor::Value* ref = map == nullptr ? nullptr : map->Find("ref");
                         return ref != nullptr && *ref == cbor::Value(choice);
                       });
  }

  Status CheckStatement(const Hash256& id) const {
    const Node* decision = NodeAt(id);
    if (decision == nullptr) return Fail(ErrorCode::kGraphMissingChild, "a decision is absent");
    SLM_ASSIGN(const Bytes statement, ReadBlob(source_, HashOf(*decision, "statement")));
    return CheckDecisionNode(*decision, statement);
  }

  // Every decision is a person's statement, and every conflict of the receipt is settled by one.
  void ClaimConflicts(const Node& promotion) {
    const auto fails = [this](const Error& error, const Hash256& at) {
      Report(error, ToHex(at));
      Add("conflicts", ClaimState::kFails, error.message, ToHex(at), error.CodeText());
    };
    const std::vector<Hash256> decisions = promotion.Children("decision");
    for (const Hash256& id : decisions) {
      if (const Status status = CheckStatement(id); !status.has_value()) return fails(status.error(), id);
    }
    const std::vector<Hash256> conflicts = promotion.Children("conflict");
    for (const Hash256& id : conflicts) {
      const Node* conflict = NodeAt(id);
      const auto settles = [&](const Hash256& at) { return Settles(*NodeAt(at), id, *conflict); };
      if (conflict != nullptr && std::any_of(decisions.begin(), decisions.end(), settles)) continue;
      return fails(MakeError(ErrorCode::kDecisionNeeded, "no decision settles conflict " + Short(id)), id);
    }
    if (ClaimedByJudge("conflicts", ToHex(out_.receipt))) return;
    Add("conflicts", ClaimState::kHolds,
        std::to_string(conflicts.size()) +
            " recorded, those of the files, each settled by a person's statement",
        ToHex(out_.receipt));
  }

  // Which family's rules read the configuration, and whether this program knows them.
  void ClaimFamilyProfile(const Node& promotion) {
    const Node* node = ChildOf(promotion, "family-profile");
    const std::string id = ChildHex(promotion, "family-profile");
    if (node == nullptr)
      return Add("profile", ClaimState::kFails, "the family profile is absent", id, "GRAPH-MISSING-CHILD");
    const FamilyProfile& carried = FamilyProfile::Llama();
    const cbor::Value* version = node->metadata.Find("version");
    const std::string family = TextOf(*node, "family");
    const bool has_version = version != nullptr && version->AsUint() != nullptr;
    const std::string named =
        family + " version " + (has_version ? std::to_string(*version->AsUint()) : std::string("?"));
    const bool same_name =
        family == carried.family() && has_version && *version->AsUint() == carried.version();
    const bool same_hash = HashOf(*node, "sha256") == carried.hash();
    if (!same_name && !same_hash) {
      return Add("profile", ClaimState::kNotClaimed, named + " is no profile that this program carries", id);
    }
    if (same_name && same_hash && TextOf(*node, "pinned_source") == carried.pinned_source() &&
        TextOf(*node, "reviewer") == carried.reviewer()) {
      return Add("profile", ClaimState::kHolds,
                 named + " of " + carried.pinned_source() + ", as carried by this program", id);
    }
    const Error error =
        std::move(MakeError(ErrorCode::kGraphSchema, "the family profile says something else than " + named +
                                                         ", which this program carries"))
            .Field("family-profile");
    Report(error, id);
    Add("profile", ClaimState::kFails, error.message, id, error.CodeText());
  }

  // Which library the tokenizer follows is the converting program's word: this one vouches for its own.
  void ClaimTokenizer(const Node& promotion) {
    const Node* node = ChildOf(promotion, "tokenizer");
    const std::string id = ChildHex(promotion, "tokenizer");
    if (node == nullptr)
      return Add("tokenizer", ClaimState::kNotClaimed, "the artifact holds no tokenizer", id);
    const std::string reference = TextOf(*node, "reference");
    if (reference == tokenizer::kReferenceVersion)
      return Add("tokenizer", ClaimState::kHolds, "a file of the source, read as " + reference + " reads it",
                 id);
    Add("tokenizer", ClaimState::kNotClaimed,
        "read as " + reference + " would; this program follows " + std::string(tokenizer::kReferenceVersion),
        id);
  }

  Status CheckArtifact(const Node& promotion, const Node& node, std::string* detail) {
    const Node* observation = ChildOf(promotion, "observation");
    const Node* config = ChildOf(promotion, "effective-config");
    const Node* ledger = ChildOf(promotion, "tensor-ledger");
    if (observation == nullptr || config == nullptr || ledger == nullptr) {
      return Fail(ErrorCode::kGraphMissingChild, "observation, configuration or ledger is absent");
    }
    if (HashOf(*observation, "artifact_blob") != HashOf(node, "file_sha256")) {
      return Fail(
          MakeError(ErrorCode::kGraphSchema, "the observations name another file").Field("artifact_blob"));
    }
    SLM_ASSIGN(Bytes bytes, ReadBlob(source_, HashOf(node, "file_sha256")));
    const uint64_t size = bytes.size();
    SLM_ASSIGN(const auto artifact, Artifact::FromBytes(std::move(bytes), slm::Verify::kAllChunks));
    SLM_TRY(artifact->VerifyAll());
    root_ = artifact->root();
    SLM_TRY(ReadCases(promotion));
    SLM_ASSIGN(subject_, SubjectOf(*artifact, cases_));
    SLM_TRY(CheckArtifactNodes(*artifact, node, *config, *ledger));
    SLM_TRY(CheckManifestNames(promotion, *artifact));
    const ArtifactParts parts = PartsOfArtifact(*artifact);
    SLM_TRY(SameBlob(promotion, "tokenizer", "blob", parts.tokenizer));
    SLM_TRY(CheckFilesOfArtifact(files_, *artifact));
    SLM_TRY(SameBlob(promotion, "template", "source_blob", parts.template_source));
    SLM_TRY(SameBlob(promotion, "template", "ir_blob", parts.template_ir));
    *detail = "root " + Short(root_) + ", every chunk, padding and hash of " + std::to_string(size) +
              " bytes, " + std::to_string(artifact->tensors().size()) + " tensors";
    return {};
  }

  // Source, license and profile as the artifact itself names them.
  Status CheckManifestNames(const Node& promotion, const Artifact& artifact) const {
    const Node* acquisition = ChildOf(promotion, "acquisition");
    const Node* profile = ChildOf(promotion, "family-profile");
    if (acquisition == nullptr || profile == nullptr)
      return Fail(ErrorCode::kGraphMissingChild, "the acquisition or the family profile is absent");
    return CheckSourceOfArtifact(*promotion.Child("acquisition"), *acquisition, *profile, artifact);
  }

  Status ReadCases(const Node& promotion) {
    const Node* suite = ChildOf(promotion, "case-suite");
    if (suite == nullptr) return Fail(ErrorCode::kGraphMissingChild, "the case suite is absent");
    SLM_ASSIGN(const Bytes text, ReadBlob(source_, HashOf(*suite, "blob")));
    SLM_ASSIGN(cases_, ParseCases(AsText(text)));
    const cbor::Value* n_cases = suite->metadata.Find("n_cases");
    if (n_cases == nullptr || *n_cases != cbor::Value(cases_.size()))
      return Fail(MakeError(ErrorCode::kGraphSchema, "the suite's node counts other cases").Field("n_cases"));
    return {};
  }

  // The node under `role` names exactly the bytes that the artifact holds.
  Status SameBlob(const Node& promotion, std::string_view role, std::string_view key,
                  const std::optional<Bytes>& bytes) {
    const Node* node = ChildOf(promotion, role);
    if (node == nullptr && !bytes) return {};
    if (node != nullptr && bytes && HashOf(*node, key) == Sha256Of(*bytes)) return {};
    return Fail(MakeError(ErrorCode::kGraphSchema,
                          "the artifact holds another " + std::string(role) + " than its node")
                    .Field(role));
  }

  void ClaimArtifact(const Node& promotion) {
    const Node* node = ChildOf(promotion, "artifact");
    const std::string id = ChildHex(promotion, "artifact");
    if (node == nullptr)
      return Add("artifact", ClaimState::kFails, "the artifact is absent", id, "GRAPH-MISSING-CHILD");
    std::string detail;
    const Status status = CheckArtifact(promotion, *node, &detail);
    if (status.has_value()) return Add("artifact", ClaimState::kHolds, detail, id);
    Report(status.error(), id);
    Add("artifact", ClaimState::kFails, status.error().message, id, status.error().CodeText());
  }

  Status OpenAndCompare(const Node& promotion) {
    std::vector<Hash256> blobs;
    for (const Hash256& id : promotion.Children("oracle-run")) {
      const Node* run = NodeAt(id);
      if (run == nullptr) return Fail(ErrorCode::kGraphMissingChild, "an oracle run is absent");
      blobs.push_back(HashOf(*run, "blob"));
    }
    const Node* policy_node = ChildOf(promotion, "tolerance-policy");
    const Node* suite = ChildOf(promotion, "case-suite");
    const Node* observation = ChildOf(promotion, "observation");
    if (policy_node == nullptr || suite == nullptr || observation == nullptr) {
      return Fail(ErrorCode::kGraphMissingChild, "policy, suite or observation is absent");
    }
    SLM_ASSIGN(const auto candidate, OpenGoldenBlob(source_, HashOf(*observation, "blob")));
    SLM_TRY(SameEnvelope(*observation, *candidate));
    SLM_TRY(CheckCandidateOfArtifact(root_, *candidate));
    const Node* backend = ChildOf(promotion, "backend-profile");
    if (backend == nullptr) return Fail(ErrorCode::kGraphMissingChild, "the backend profile is absent");
    if (TextOf(promotion, "backend") != TextOf(*backend, "name"))
      return Fail(MakeError(ErrorCode::kGraphSchema, "the receipt names another backend").Field("backend"));
    SLM_TRY(CheckEngineOfBackend(*observation, *backend));
    SLM_TRY(CheckModulesOfBackend(ChildOf(*observation, "runtime-build"), *backend));
    SLM_TRY(CheckCandidateOfBackend(*backend, HashOf(*suite, "blob"), *candidate));
    SLM_TRY(CheckCasesOfContainer(cases_, *candidate));
    candidate_ = candidate;
    SLM_ASSIGN(const compare::Policy policy, ReadPolicy(*policy_node));
    policy_ = policy;
    if (blobs.empty()) {
      out_.comparison = compare::CompareWithoutEvidence(subject_, *candidate, policy);
      return {};
    }
    SLM_ASSIGN(const OpenEvidence evidence, OpenEvidenceBlobs(source_, blobs));
    const OraclePin pin = PinOf(ChildOf(promotion, "family-profile"), ChildOf(promotion, "tokenizer"));
    for (size_t i = 0; i < blobs.size(); ++i) {
      const Node& run = *NodeAt(promotion.Children("oracle-run")[i]);
      const golden::Golden& container = *evidence.containers[i];
      SLM_TRY(SameEnvelope(run, container));
      if (TextOf(run, "mode") != golden::ModeName(container.mode())) {
        return Fail(MakeError(ErrorCode::kGraphSchema, "the container is of another mode than its node")
                        .Field("mode"));
      }
      SLM_TRY(CheckEvidenceOfPin(pin, container));
      SLM_TRY(CheckSameExporter(*evidence.containers.front(), container));
      SLM_TRY(CheckEvidenceOfSource(files_, container));
      SLM_TRY(CheckEvidenceOfCases(HashOf(*suite, "blob"), container));
      SLM_TRY(CheckCasesOfContainer(cases_, container));
      SLM_TRY(CheckTokenizerFinding(promotion, container));
    }
    SLM_ASSIGN(out_.comparison, compare::Compare(evidence.sorted, *candidate, policy));
    return {};
  }

  // In WebAssembly one module has the weights and another tokenizer and template: a receipt names both
  // (BKD-02).
  static Status CheckModulesOfBackend(const Node* build, const Node& backend) {
    if (build == nullptr) return Fail(ErrorCode::kGraphMissingChild, "the runtime build is absent");
    const bool of_wasm = TextOf(backend, "kernel").starts_with("wasm-");
    if (of_wasm == (build->metadata.Find("text_module_sha256") != nullptr)) return {};
    return Fail(MakeError(ErrorCode::kGraphSchema, of_wasm ? "a build of WebAssembly names its text module"
                                                           : "a native build has no text module")
                    .Field("text_module_sha256"));
  }

  // A browser's observation names the engine that its backend is called after (BKD-02).
  static Status CheckEngineOfBackend(const Node& observation, const Node& backend) {
    const cbor::Value* engine = observation.metadata.Find("engine");
    if (engine == nullptr) return {};
    const cbor::Value* name = engine->AsMap() == nullptr ? nullptr : engine->AsMap()->Find("name");
    const bool named = name != nullptr && name->AsTextString() != nullptr;
    if (named && TextOf(backend, "name") == TextOf(backend, "kernel") + "@" + *name->AsTextString())
      return {};
    return Fail(
        MakeError(ErrorCode::kGraphSchema, "the observation's engine is not that of the backend's name")
            .Field("engine"));
  }

  Result<compare::Policy> ReadPolicy(const Node& node) const {
    SLM_ASSIGN(const Bytes text, ReadBlob(source_, HashOf(node, "blob")));
    SLM_ASSIGN(compare::Policy policy, compare::ParsePolicy(AsText(text)));
    if (policy.name != TextOf(node, "name")) {
      return Fail(
          MakeError(ErrorCode::kGraphPolicy, "the policy has another name than its node").Field("name"));
    }
    const cbor::Value* version = node.metadata.Find("version");
    if (version == nullptr || *version != cbor::Value(policy.version)) {
      return Fail(MakeError(ErrorCode::kGraphPolicy, "the policy has another version than its node")
                      .Field("version"));
    }
    return policy;
  }

  // What the oracle found of two tokenizers is a conflict of the receipt, never left out.
  Status CheckTokenizerFinding(const Node& promotion, const golden::Golden& container) const {
    if (container.content().tokenizer.Find("first_difference") == nullptr) return {};
    for (const Hash256& id : promotion.Children("conflict")) {
      const Node* conflict = NodeAt(id);
      if (conflict != nullptr && TextOf(*conflict, "code") == Info(ErrorCode::kTokConflict).name) return {};
    }
    return Fail(MakeError(ErrorCode::kGraphMissingChild,
                          "the evidence records two tokenizers that differ, the receipt no such conflict")
                    .Field("conflict"));
  }

  static Status SameEnvelope(const Node& node, const golden::Golden& container) {
    if (HashOf(node, "envelope_sha256") == container.envelope_sha256()) return {};
    return Fail(MakeError(ErrorCode::kGraphSchema, "the container has another envelope than its node")
                    .Field("envelope_sha256"));
  }

  void Recompute(const Node& promotion) {
    const Status status = OpenAndCompare(promotion);
    if (!status.has_value()) {
      broken_ = status.error();
      Report(status.error(), ToHex(out_.receipt));
    }
  }

  // A policy under the name and version of one that ships with this program must be that one (TOL-03).
  void ClaimPolicy(const Node& promotion) {
    const std::string id = ChildHex(promotion, "tolerance-policy");
    if (!policy_)
      return Add("policy", ClaimState::kFails, "the policy could not be read", id, "GRAPH-POLICY");
    const std::string named =
        policy_->name + " version " + std::to_string(policy_->version) + ", " + Short(policy_->file_sha256);
    if (const Status status = CheckPolicyName(*policy_); !status.has_value()) {
      Report(status.error(), id);
      return Add("policy", ClaimState::kFails, status.error().message, id, status.error().CodeText());
    }
    const bool shipped = compare::ShippedPolicyHash(policy_->name, policy_->version).has_value();
    Add("policy", ClaimState::kHolds,
        named + (shipped ? ", as shipped with this program" : ", of the promoter's own: judge its limits") +
            (policy_->any_source ? "; general, not calibrated for this source alone" : "; for this source"),
        id);
  }

  // What can be held against the observations without any reference.
  void ClaimObservations(const Node& promotion) {
    const std::string id = ChildHex(promotion, "observation");
    if (candidate_ == nullptr)
      return Add("observations", ClaimState::kFails, "could not be read, or belong to something else", id,
                 broken_ ? broken_->CodeText() : "");
    const Status status = CheckSelfConsistent(*candidate_);
    if (!status.has_value())
      return Add("observations", ClaimState::kFails, status.error().message, id, status.error().CodeText());
    Add("observations", ClaimState::kHolds,
        std::to_string(candidate_->cases().size()) +
            " cases, those of the suite, by this backend; every value finite, top-k and first token agree",
        id);
  }

  // Stored verdicts are looked at only here, after all of them were computed again.
  void ClaimLevels(const Node& promotion) {
    const cbor::Map recomputed = out_.comparison ? VerdictsOf(*out_.comparison) : cbor::Map{};
    const std::string comparison_id = ChildHex(promotion, "comparison");
    for (size_t i = 0; i < compare::kLevelCount; ++i)
      ClaimLevel(static_cast<compare::Level>(i), comparison_id);
    if (out_.comparison) {
      const compare::TruthResult& truth = out_.comparison->truth;
      Add("truth", StateOf(truth.verdict), truth.summary, comparison_id);
    } else {
      Add("truth", ClaimState::kFails, "could not be recomputed", "", broken_ ? broken_->CodeText() : "");
    }
    ClaimVerdicts(promotion, recomputed);
  }

  void ClaimLevel(compare::Level level, const std::string& node) {
    const std::string name(compare::LevelName(level));
    if (level == compare::Level::kL0 && !out_.problems.empty()) {
      const Problem& first = out_.problems.front();
      return Add(name, ClaimState::kFails, first.what, first.node, first.code);
    }
    if (out_.comparison) {
      const compare::LevelResult& result = out_.comparison->levels[static_cast<size_t>(level)];
      std::string detail = result.summary;
      if (result.first) detail += "; " + compare::DifferenceText(*result.first);
      return Add(name, StateOf(result.verdict), std::move(detail), node,
                 result.first ? result.first->code : "");
    }
    Add(name, ClaimState::kFails, "could not be recomputed" + (broken_ ? ": " + broken_->message : ""), node,
        broken_ ? broken_->CodeText() : "");
  }

  void ClaimVerdicts(const Node& promotion, const cbor::Map& recomputed) {
    std::string differing;
    std::string where;
    const auto check = [&](const Node& node, const std::string& id) {
      const cbor::Value* stored = node.metadata.Find("verdicts");
      const cbor::Map* map = stored == nullptr ? nullptr : stored->AsMap();
      for (const auto& [key, value] : recomputed) {
        const cbor::Value* other = map == nullptr ? nullptr : map->Find(key);
        if (other != nullptr && *other == value) continue;
        if (differing.empty()) {
          differing = key;
          where = id;
        }
      }
      if (differing.empty() && map != nullptr && map->size() != recomputed.size()) {
        differing = "a key of no level";
        where = id;
      }
    };
    check(promotion, ToHex(out_.receipt));
    const Node* comparison = ChildOf(promotion, "comparison");
    if (comparison != nullptr) {
      check(*comparison, ChildHex(promotion, "comparison"));
      if (differing.empty() && out_.comparison &&
          HashOf(*comparison, "blob") !=
              Sha256Of(cbor::Encode(compare::EncodeComparison(*out_.comparison)))) {
        differing = "metrics";
        where = ChildHex(promotion, "comparison");
      }
    }
    if (broken_) {
      return Add("verdicts", ClaimState::kFails, "could not be recomputed: " + broken_->message,
                 ToHex(out_.receipt), broken_->CodeText());
    }
    if (differing.empty()) {
      return Add("verdicts", ClaimState::kHolds, "every stored verdict and number equals the recomputed one",
                 where);
    }
    const Error error =
        std::move(MakeError(ErrorCode::kVerdictDiffers, "stored and recomputed differ: " + differing))
            .Field(differing);
    Report(error, where);
    Add("verdicts", ClaimState::kFails, error.message, where, error.CodeText());
  }

  const ObjectSource& source_;
  const SourceJudge& judge_;
  Verification& out_;
  std::optional<SourceFault> fault_;
  SourceFiles files_;
  Hash256 root_{};
  std::vector<CaseSpec> cases_;
  compare::Subject subject_;
  std::shared_ptr<const golden::Golden> candidate_;
  std::optional<compare::Policy> policy_;
  std::optional<Error> broken_;
};

}  // namespace

std::string_view ClaimStateName(ClaimState state) {
  switch (state) {
    case ClaimState::kHolds:
      return "holds";
    case ClaimState::kFails:
      return "fails";
    case ClaimState::kUnstable:
      return "unstable";
    case ClaimState::kNotClaimed:
      return "not-claimed";
  }
  return "not-claimed";
}

std::string_view ClaimStateText(ClaimState state) {
  return state == ClaimState::kNotClaimed ? "not claimed" : ClaimStateName(state);
}

const Claim* Verification::Find(std::string_view name) const {
  for (const Claim& claim : claims) {
    if (claim.name == name) return &claim;
  }
  return nullptr;
}

bool Verification::Holds(const std::vector<std::string>& names) const {
  if (!problems.empty()) return false;
  // Levels rest on the claims of integrity; not on each other.
  const auto is_level = [](const Claim& claim) {
    return claim.name == "truth" || claim.name.starts_with('L');
  };
  const auto is_broken = [](const Claim& claim) {
    return claim.state == ClaimState::kFails || claim.state == ClaimState::kUnstable;
  };
  if (std::any_of(claims.begin(), claims.end(),
                  [&](const Claim& claim) { return !is_level(claim) && is_broken(claim); })) {
    return false;
  }
  for (const std::string& name : names) {
    const Claim* claim = Find(name);
    if (claim == nullptr || claim->state != ClaimState::kHolds) return false;
  }
  if (!names.empty()) return true;
  return std::none_of(claims.begin(), claims.end(), is_broken);
}

void ClaimRerunBuild(const RuntimeBuild& running, Verification* verification) {
  const auto receipt = verification->nodes.find(verification->receipt);
  const Hash256* id = receipt == verification->nodes.end() ? nullptr : receipt->second.Child("runtime-build");
  const auto build = id == nullptr ? verification->nodes.end() : verification->nodes.find(*id);
  if (build == verification->nodes.end()) return;  // a missing child already
  const std::string where = ToHex(*id);
  const Hash256 named = HashOf(build->second, "executable_sha256");
  std::string name(kRerunBuildClaim);
  if (named != running.executable_sha256) {
    verification->claims.push_back({std::move(name), ClaimState::kNotClaimed,
                                    "the receipt names executable " + Short(named) + ", " +
                                        Short(running.executable_sha256) + " ran again",
                                    where, ""});
    return;
  }
  for (const auto& [key, value] : RuntimeBuildNode(running).metadata) {
    const cbor::Value* recorded = build->second.metadata.Find(key);
    if (recorded != nullptr && *recorded == value) continue;
    const Error error =
        std::move(MakeError(ErrorCode::kRerunDiffers,
                            "the executable that the receipt names says otherwise of its " + key))
            .Field(key);
    verification->problems.push_back({error.CodeText(), where, error.field, error.message});
    verification->claims.push_back(
        {std::move(name), ClaimState::kFails, error.message, where, error.CodeText()});
    return;
  }
  verification->claims.push_back({std::move(name), ClaimState::kHolds,
                                  "executable " + Short(named) + ", the one that the receipt names", where,
                                  ""});
}

Result<Verification> Verify(const ObjectSource& source, const Hash256& receipt, const SourceJudge& judge) {
  auto bytes = source.node(receipt);
  if (!bytes.has_value()) return Fail(std::move(bytes).error());
  SLM_ASSIGN(const Node root, DecodeNode(*bytes));
  if (root.type != "promotion") {
    return Fail(MakeError(ErrorCode::kNodeType, "node " + ToHex(receipt) + " is of type " + root.type +
                                                    ", no promotion; give a receipt's id")
                    .Field("type"));
  }
  Verification verification;
  verification.receipt = receipt;
  Walker(source, &verification).Walk(receipt);
  Verifier(source, judge, &verification).Run();
  return verification;
}

}  // namespace slm::evidence
