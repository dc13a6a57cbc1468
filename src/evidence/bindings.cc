#include "evidence/bindings.h"

#include <algorithm>
#include <string_view>

#include "base/utf8.h"
#include "codec/sha256.h"
#include "evidence/receipt.h"

namespace slm::evidence {
namespace {

std::string Display(const Bytes& path) {
  return EscapeForDisplay(AsText(path));
}

std::unexpected<Error> Unbound(std::string what, std::string_view field) {
  return Fail(MakeError(ErrorCode::kGraphSchema, std::move(what)).Field(field));
}

// Files whose bytes decide what a model computes; an oracle that did not read one ran something else.
bool DecidesBehaviour(const Bytes& path) {
  const std::string_view name = AsText(path);
  return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") ||
         name == "config.json" || name == "generation_config.json" || name == "tokenizer.json" ||
         name == "tokenizer_config.json";
}

// The value under `path` ("environment.versions.torch") of what the generator says; null if it says nothing.
const cbor::Value* Said(const golden::Golden& evidence, std::string_view path) {
  const cbor::Map* map = &evidence.content().generator;
  for (size_t begin = 0; map != nullptr;) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const cbor::Value* value = map->Find(path.substr(begin, end - begin));
    if (end == path.size() || value == nullptr) return value;
    map = value->AsMap();
    begin = end + 1;
  }
  return nullptr;
}

std::string Shown(const cbor::Value* value) {
  if (value == nullptr) return "nothing";
  if (const std::string* text = value->AsTextString()) return EscapeForDisplay(*text);
  if (const bool* truth = value->AsBool()) return *truth ? "true" : "false";
  return "something else";
}

Status MustSay(const golden::Golden& evidence, const std::string& path, const cbor::Value& expected) {
  const cbor::Value* value = Said(evidence, path);
  if (value != nullptr && *value == expected) return {};
  return Unbound("the evidence of mode " + std::string(golden::ModeName(evidence.mode())) + " says " +
                     Shown(value) + " for " + path + ", where " + Shown(&expected) +
                     " is pinned; export it with the locked oracle",
                 "generator." + path);
}

// "transformers 5.24.0": the evidence ran this version of this library.
Status MustRun(const golden::Golden& evidence, const std::string& pinned) {
  const size_t space = pinned.find(' ');
  if (space == std::string::npos) return Unbound("the profile pins no version: " + pinned, "pinned_source");
  return MustSay(evidence, "environment.versions." + pinned.substr(0, space),
                 cbor::Value(pinned.substr(space + 1)));
}

}  // namespace

OraclePin PinOf(const Node* family_profile, const Node* tokenizer) {
  OraclePin pin;
  if (family_profile != nullptr) pin.framework = TextOf(*family_profile, "pinned_source");
  if (tokenizer != nullptr) pin.tokenizer = TextOf(*tokenizer, "reference");
  return pin;
}

Status CheckEvidenceOfPin(const OraclePin& pin, const golden::Golden& evidence) {
  SLM_TRY(MustRun(evidence, pin.framework));
  if (pin.tokenizer) SLM_TRY(MustRun(evidence, *pin.tokenizer));
  SLM_TRY(MustSay(evidence, "framework.attention", cbor::Value("eager")));
  SLM_TRY(MustSay(evidence, "framework.deterministic_algorithms", cbor::Value(true)));
  SLM_TRY(MustSay(evidence, "framework.matmul_precision", cbor::Value("highest")));
  SLM_TRY(MustSay(evidence, "framework.tf32_matmul", cbor::Value(false)));
  SLM_TRY(MustSay(evidence, "framework.tf32_cudnn", cbor::Value(false)));
  if (evidence.mode() == golden::Mode::kReference)
    SLM_TRY(MustSay(evidence, "framework.dtype", cbor::Value("f32")));
  return {};
}

Status CheckSameExporter(const golden::Golden& first, const golden::Golden& other) {
  for (std::string_view path : {"exporter_sha256", "environment.lock_sha256"}) {
    const cbor::Value* mine = Said(first, path);
    const cbor::Value* theirs = Said(other, path);
    if (mine != nullptr && theirs != nullptr && *mine == *theirs) continue;
    return Unbound("the evidence of mode " + std::string(golden::ModeName(first.mode())) +
                       " and that of mode " + std::string(golden::ModeName(other.mode())) +
                       " come from different " + (path == "exporter_sha256" ? "exporters" : "environments") +
                       "; export both with one locked oracle",
                   "generator." + std::string(path));
  }
  return {};
}

Result<SourceFiles> FilesOfAcquisition(const ObjectSource& source, const Node& acquisition) {
  const Hash256* tree_id = acquisition.Child("source-tree");
  if (tree_id == nullptr)
    return Fail(MakeError(ErrorCode::kGraphMissingChild, "no source tree").Field("source-tree"));
  SLM_ASSIGN(const Node tree, ReadNode(source, *tree_id));
  SourceFiles files;
  for (const Edge& edge : tree.edges) {
    SLM_ASSIGN(const Node node, ReadNode(source, edge.child));
    cbor::Reader reader(node.metadata, "source-file");
    SLM_ASSIGN(Bytes path, reader.ByteString("path"));
    FileIdentity identity;
    identity.node = edge.child;
    SLM_ASSIGN(identity.size, reader.Uint("size"));
    SLM_ASSIGN(identity.sha256, reader.Hash("blob"));
    files.emplace(std::move(path), identity);
  }
  return files;
}

Status CheckFilesOfArtifact(const SourceFiles& files, const Artifact& artifact) {
  const cbor::Value* source = artifact.manifest().Find("source");
  const cbor::Value* list =
      source == nullptr || source->AsMap() == nullptr ? nullptr : source->AsMap()->Find("files");
  if (list == nullptr || list->AsArray() == nullptr)
    return Unbound("the artifact names no source files", "source.files");
  for (const cbor::Value& row : *list->AsArray()) {
    if (row.AsMap() == nullptr) return Unbound("a source file of the artifact is no map", "source.files");
    cbor::Reader reader(*row.AsMap(), "source.files");
    SLM_ASSIGN(const Bytes path, reader.ByteString("path"));
    SLM_ASSIGN(const uint64_t size, reader.Uint("size"));
    SLM_ASSIGN(const Hash256 sha256, reader.Hash("sha256"));
    const auto found = files.find(path);
    if (found == files.end() || found->second.size != size || found->second.sha256 != sha256) {
      return Unbound("the artifact was made from another " + Display(path), Display(path));
    }
  }
  if (const auto tokenizer = artifact.Blob("tokenizer-json"); tokenizer.has_value()) {
    const Hash256 hash = Sha256Of(*tokenizer);
    const auto same = [&hash](const auto& entry) { return entry.second.sha256 == hash; };
    if (std::none_of(files.begin(), files.end(), same)) {
      return Unbound("the artifact's tokenizer is no file of the source", "tokenizer-json");
    }
  }
  return {};
}

Status CheckSourceOfArtifact(const Hash256& acquisition_id, const Node& acquisition,
                             const Node& family_profile, const Artifact& artifact) {
  const cbor::Map& manifest = artifact.manifest();
  const auto member = [&manifest](std::string_view map_key, std::string_view key) -> const cbor::Value* {
    const cbor::Value* map = manifest.Find(map_key);
    return map == nullptr || map->AsMap() == nullptr ? nullptr : map->AsMap()->Find(key);
  };
  const cbor::Value* id = member("source", "acquisition");
  if (id == nullptr || *id != cbor::Value(acquisition_id))
    return Unbound("the artifact was made from another acquisition", "source.acquisition");
  for (std::string_view key : {"name", "revision"}) {
    const cbor::Value* mine = member("source", key);
    const cbor::Value* theirs = acquisition.metadata.Find(key);
    const bool same = mine != nullptr && mine->AsByteString() != nullptr && theirs != nullptr &&
                      theirs->AsTextString() != nullptr &&
                      AsText(*mine->AsByteString()) == *theirs->AsTextString();
    if (!same) return Unbound("the artifact's source has another " + std::string(key), key);
  }
  const cbor::Value* spdx = member("license", "spdx");
  const cbor::Value* decided = acquisition.metadata.Find("spdx");
  if (spdx == nullptr || decided == nullptr || *spdx != *decided)
    return Unbound("the artifact names another license than its acquisition", "license.spdx");
  const cbor::Value* profile = manifest.Find("family_profile");
  cbor::Map expected;
  for (const auto& [key, value] : family_profile.metadata) {
    if (key != "schema") expected.Set(key, value);
  }
  if (profile == nullptr || *profile != cbor::Value(std::move(expected)))
    return Unbound("the artifact was made under another family profile", "family_profile");
  return {};
}

Status CheckEvidenceOfSource(const SourceFiles& files, const golden::Golden& evidence) {
  const auto& read = evidence.content().source_files;
  if (read.empty()) return Unbound("the evidence names no source files; export it again", "source_files");
  for (const golden::SourceFile& file : read) {
    const auto found = files.find(file.path);
    if (found == files.end()) {
      return Unbound(
          "the evidence was made from a source that has " + Display(file.path) + ", this one has not",
          Display(file.path));
    }
    if (found->second.size != file.size || found->second.sha256 != file.sha256) {
      return Unbound(
          "the evidence was made from another " + Display(file.path) + "; export it from this source",
          Display(file.path));
    }
  }
  for (const auto& [path, identity] : files) {
    const auto same = [&path](const golden::SourceFile& file) { return file.path == path; };
    if (!DecidesBehaviour(path) || std::any_of(read.begin(), read.end(), same)) continue;
    return Unbound("the evidence was made without " + Display(path) + "; export it from this source",
                   Display(path));
  }
  return {};
}

Status CheckEvidenceOfCases(const Hash256& cases_sha256, const golden::Golden& evidence) {
  const cbor::Value* named = evidence.content().generator.Find("cases_sha256");
  if (named != nullptr && named->AsHash() != nullptr &&
      std::equal(cases_sha256.begin(), cases_sha256.end(), named->AsHash())) {
    return {};
  }
  return Unbound("the evidence was made with another cases file; export it with this one", "cases_sha256");
}

Status CheckCandidateOfArtifact(const Hash256& root, const golden::Golden& candidate) {
  const auto found = candidate.content().identities.find("artifact");
  if (found != candidate.content().identities.end() && found->second == root) return {};
  return Fail(MakeError(ErrorCode::kSlmRoot, "the observations were made with another artifact")
                  .Field("identities.artifact"));
}

Status CheckCasesOfContainer(const std::vector<CaseSpec>& cases, const golden::Golden& container) {
  const auto& held = container.cases();
  const std::string mode(golden::ModeName(container.mode()));
  if (held.size() != cases.size()) {
    return Unbound("the container of mode " + mode + " holds " + std::to_string(held.size()) +
                       " cases, the suite has " + std::to_string(cases.size()),
                   "cases");
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    const CaseSpec& spec = cases[i];
    const golden::Case& one = held[i];
    const bool sealed = spec.case_class == golden::CaseClass::kPrivateBehaviorCommitment;
    const bool same_input = sealed ? one.input_commitment == Sha256Of(spec.data) : one.input == spec.data;
    if (one.case_id != spec.id || one.case_class != spec.case_class || one.input_kind != spec.kind ||
        !same_input || one.max_new_tokens != spec.max_new_tokens ||
        one.add_generation_prompt != spec.add_generation_prompt) {
      return Unbound("the container of mode " + mode + " ran another case than the suite's " + spec.id,
                     spec.id);
    }
    if (sealed) continue;
    if (one.generation.has_value() != (spec.max_new_tokens > 0))
      return Unbound("case " + spec.id + " of mode " + mode + " lacks its generation, or has one too many",
                     spec.id);
    const bool has_text = spec.kind == golden::InputKind::kUtf8 || spec.kind == golden::InputKind::kMessages;
    const auto is_cut = [&spec](const golden::Tokenization& t) {
      const bool rendered = spec.kind == golden::InputKind::kMessages;
      return t.reference == "published" && t.of == (rendered ? "rendered" : "input") &&
             t.add_special_tokens == (!rendered && spec.add_special_tokens);
    };
    if (has_text && std::none_of(one.tokenizations.begin(), one.tokenizations.end(), is_cut))
      return Unbound("case " + spec.id + " of mode " + mode + " lacks the tokens of its text", spec.id);
  }
  return {};
}

Status CheckCandidateOfBackend(const Node& backend, const Hash256& cases_sha256,
                               const golden::Golden& candidate) {
  const cbor::Map& generator = candidate.content().generator;
  const auto same = [&](std::string_view key, std::string_view node_key) {
    const cbor::Value* mine = generator.Find(key);
    const cbor::Value* theirs = backend.metadata.Find(node_key);
    return mine != nullptr && theirs != nullptr && *mine == *theirs;
  };
  constexpr std::pair<std::string_view, std::string_view> kKeys[] = {
      {"backend", "name"}, {"kernel", "kernel"}, {"profile", "profile"}, {"threads", "threads"}};
  for (const auto& [key, node_key] : kKeys) {
    if (!same(key, node_key))
      return Unbound("the observations were made by another " + std::string(key) + " than the receipt's",
                     key);
  }
  const cbor::Value* cases = generator.Find("cases_sha256");
  if (cases == nullptr || *cases != cbor::Value(cases_sha256))
    return Unbound("the observations were made with another cases file", "cases_sha256");
  return {};
}

}  // namespace slm::evidence
