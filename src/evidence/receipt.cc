#include "evidence/receipt.h"

#include <algorithm>

#include "codec/sha256.h"
#include "evidence/observe.h"

namespace slm::evidence {
namespace {

std::string LowerLevel(compare::Level level) {
  std::string name(compare::LevelName(level));
  name[0] = 'l';  // keys of the CBOR profile are lower case
  return name;
}

}  // namespace

Result<std::shared_ptr<const golden::Golden>> OpenGoldenBlob(const ObjectSource& source,
                                                             const Hash256& blob) {
  SLM_ASSIGN(Bytes bytes, ReadBlob(source, blob));
  return golden::Golden::FromBytes(std::move(bytes));
}

Result<OpenEvidence> OpenEvidenceBlobs(const ObjectSource& source, const std::vector<Hash256>& blobs) {
  OpenEvidence evidence;
  std::vector<const golden::Golden*> raw;
  for (const Hash256& blob : blobs) {
    SLM_ASSIGN(auto golden, OpenGoldenBlob(source, blob));
    raw.push_back(golden.get());
    evidence.containers.push_back(std::move(golden));
  }
  SLM_ASSIGN(evidence.sorted, compare::SortEvidence(raw));
  return evidence;
}

cbor::Map VerdictsOf(const compare::Comparison& comparison) {
  cbor::Map map;
  for (const compare::LevelResult& level : comparison.levels) {
    map.Set(LowerLevel(level.level), compare::VerdictName(level.verdict));
  }
  map.Set("truth", compare::VerdictName(comparison.truth.verdict));
  return map;
}

ArtifactParts PartsOfArtifact(const Artifact& artifact) {
  const auto blob = [&artifact](std::string_view kind) -> std::optional<Bytes> {
    const auto bytes = artifact.Blob(kind);
    if (!bytes.has_value()) return std::nullopt;
    return Bytes(bytes->begin(), bytes->end());
  };
  return {.tokenizer = blob("tokenizer-json"),
          .template_source = blob("template-source"),
          .template_ir = blob("template-ir")};
}

Result<compare::Subject> SubjectOf(const Artifact& artifact, const std::vector<CaseSpec>& cases) {
  compare::Subject subject;
  subject.identities["artifact"] = artifact.root();
  SLM_ASSIGN(subject.identities["source"], SourceIdentityOf(artifact));
  const ArtifactParts parts = PartsOfArtifact(artifact);
  if (parts.tokenizer) subject.identities["tokenizer"] = Sha256Of(*parts.tokenizer);
  if (parts.template_source) subject.identities["template"] = Sha256Of(*parts.template_source);
  for (const CaseSpec& spec : cases) subject.case_ids.push_back(spec.id);
  return subject;
}

Status CheckArtifactNodes(const Artifact& artifact, const Node& artifact_node, const Node& config_node,
                          const Node& ledger_node) {
  const auto differs = [](std::string_view key) -> std::unexpected<Error> {
    return Fail(
        MakeError(ErrorCode::kGraphSchema, "the artifact says something else than its node").Field(key));
  };
  if (HashOf(artifact_node, "root") != artifact.root()) {
    return Fail(MakeError(ErrorCode::kSlmRoot, "the file has another root than its node says").Field("root"));
  }
  const cbor::Value* size = artifact_node.metadata.Find("size");
  if (size == nullptr || *size != cbor::Value(artifact.file().size())) return differs("size");
  const cbor::Value* config = config_node.metadata.Find("config");
  if (config == nullptr || *config != cbor::Value(artifact.config())) return differs("config");
  constexpr std::pair<std::string_view, std::string_view> kSameKeys[] = {
      {"columns", "config_columns"},
      {"ignored_metadata", "ignored_metadata"},
      {"sampling_declarations", "sampling_declarations"},
      {"accepted_conflicts", "accepted_conflicts"}};
  for (const auto& [node_key, manifest_key] : kSameKeys) {
    const cbor::Value* mine = config_node.metadata.Find(node_key);
    const cbor::Value* theirs = artifact.manifest().Find(manifest_key);
    if (mine == nullptr || theirs == nullptr || *mine != *theirs) return differs(node_key);
  }
  for (std::string_view key : {"tensors", "blobs", "omitted"}) {
    const cbor::Value* mine = ledger_node.metadata.Find(key);
    const cbor::Value* theirs = artifact.manifest().Find(key);
    if (mine == nullptr || theirs == nullptr || *mine != *theirs) return differs(key);
  }
  return {};
}

Hash256 HashOf(const Node& node, std::string_view key) {
  Hash256 hash{};
  const cbor::Value* value = node.metadata.Find(key);
  if (value != nullptr && value->AsHash() != nullptr) std::copy_n(value->AsHash(), hash.size(), hash.begin());
  return hash;
}

std::string TextOf(const Node& node, std::string_view key) {
  const cbor::Value* value = node.metadata.Find(key);
  return value != nullptr && value->AsTextString() != nullptr ? *value->AsTextString() : std::string();
}

}  // namespace slm::evidence
