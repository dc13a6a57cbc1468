#include "evidence/browser_run.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <utility>

#include "codec/json.h"
#include "codec/sha256.h"
#include "evidence/bindings.h"
#include "evidence/cases_file.h"
#include "evidence/receipt.h"

namespace slm::evidence {
namespace {

constexpr uint64_t kMaxFactsBytes = uint64_t{1} << 20;

std::unexpected<Error> Bad(const json::Value& at, std::string what) {
  return Fail(MakeError(ErrorCode::kCaseSchema, std::move(what)).At(at.byte_offset()).Field(at.Path()));
}

Result<json::Value> Object(const json::Value& parent, std::string_view key,
                           std::initializer_list<std::string_view> members) {
  const auto value = key.empty() ? std::optional<json::Value>(parent) : parent.Find(key);
  if (!value || !value->is_object())
    return Bad(value.value_or(parent), "an object is expected: " + std::string(key));
  for (const json::Value member : value->children()) {
    if (std::find(members.begin(), members.end(), member.key()) == members.end())
      return Bad(member, "no fact is called so");
  }
  return *value;
}

Result<std::string> Text(const json::Value& object, std::string_view key) {
  const auto value = object.Find(key);
  if (!value || !value->is_string() || value->string().empty())
    return Bad(value.value_or(object), "text is expected: " + std::string(key));
  return std::string(value->string());
}

Result<Hash256> Hash(const json::Value& object, std::string_view key) {
  SLM_ASSIGN(const std::string text, Text(object, key));
  Hash256 hash{};
  if (!HashFromHex(text, &hash)) return Bad(*object.Find(key), "64 hexadecimal digits are expected");
  return hash;
}

Result<RuntimeBuild> ParseBuild(const json::Value& root) {
  SLM_ASSIGN(const json::Value object,
             Object(root, "build",
                    {"executable_sha256", "text_module_sha256", "version", "compiler", "compiler_sha256",
                     "linker", "linker_sha256", "flags", "source_tree_sha256"}));
  RuntimeBuild build;
  SLM_ASSIGN(build.executable_sha256, Hash(object, "executable_sha256"));
  SLM_ASSIGN(build.text_module_sha256, Hash(object, "text_module_sha256"));
  SLM_ASSIGN(build.version, Text(object, "version"));
  SLM_ASSIGN(build.compiler, Text(object, "compiler"));
  SLM_ASSIGN(build.compiler_sha256, Hash(object, "compiler_sha256"));
  SLM_ASSIGN(build.linker, Text(object, "linker"));
  SLM_ASSIGN(build.linker_sha256, Hash(object, "linker_sha256"));
  SLM_ASSIGN(build.flags, Text(object, "flags"));
  SLM_ASSIGN(build.source_tree_sha256, Hash(object, "source_tree_sha256"));
  return build;
}

Result<cbor::Map> ParseEngine(const json::Value& identity) {
  SLM_ASSIGN(const json::Value engine,
             Object(identity, "engine", {"name", "version", "javascript", "userAgent", "features"}));
  cbor::Map out;
  for (const auto& [key, name] : {std::pair<std::string_view, std::string_view>{"name", "name"},
                                  {"version", "version"},
                                  {"javascript", "javascript"},
                                  {"userAgent", "user_agent"}}) {
    SLM_ASSIGN(std::string text, Text(engine, key));
    out.Set(name, std::move(text));
  }
  constexpr std::pair<std::string_view, std::string_view> kFeatures[] = {
      {"simd", "simd"},
      {"relaxedSimd", "relaxed_simd"},
      {"threads", "threads"},
      {"crossOriginIsolated", "cross_origin_isolated"},
      {"secureContext", "secure_context"},
      {"privateFileSystem", "private_file_system"}};
  SLM_ASSIGN(const json::Value features, Object(engine, "features",
                                                {"simd", "relaxedSimd", "threads", "crossOriginIsolated",
                                                 "secureContext", "privateFileSystem"}));
  cbor::Map flags;
  for (const auto& [key, name] : kFeatures) {
    const auto feature = features.Find(key);
    if (!feature || !feature->is_bool())
      return Bad(feature.value_or(features), "true or false is expected: " + std::string(key));
    flags.Set(name, feature->boolean());
  }
  out.Set("features", std::move(flags));
  return out;
}

Node MakeNode(std::string type, cbor::Map metadata, std::vector<Edge> edges) {
  return Node{.type = std::move(type), .metadata = std::move(metadata), .edges = std::move(edges)};
}

}  // namespace

Result<BrowserRun> ParseBrowserRun(std::string text) {
  SLM_ASSIGN(const json::Document document,
             json::Parse(std::move(text), {.max_bytes = kMaxFactsBytes, .max_depth = 8}));
  SLM_ASSIGN(const json::Value root, Object(document.root(), "", {"build", "identity"}));
  BrowserRun run;
  SLM_ASSIGN(run.build, ParseBuild(root));
  SLM_ASSIGN(const json::Value identity,
             Object(root, "identity", {"artifact", "module", "textModule", "backend", "engine"}));
  SLM_ASSIGN(const Hash256 module, Hash(identity, "module"));
  if (module != run.build.executable_sha256)
    return Bad(*identity.Find("module"), "the browser ran another module than the build's");
  SLM_ASSIGN(const Hash256 text_module, Hash(identity, "textModule"));
  if (text_module != run.build.text_module_sha256)
    return Bad(*identity.Find("textModule"), "the browser ran another text module than the build's");
  SLM_ASSIGN(run.engine, ParseEngine(identity));
  SLM_ASSIGN(const json::Value backend,
             Object(identity, "backend", {"name", "kernel", "profile", "threads", "id"}));
  SLM_ASSIGN(run.backend.name, Text(backend, "name"));
  SLM_ASSIGN(run.backend.kernel, Text(backend, "kernel"));
  SLM_ASSIGN(run.backend.profile, Text(backend, "profile"));
  const auto threads = backend.Find("threads");
  if (!threads || !threads->is_number() || !threads->AsUint())
    return Bad(threads.value_or(backend), "a whole number is expected: threads");
  run.backend.threads = *threads->AsUint();
  if (run.backend.name != run.backend.kernel + "@" + *run.engine.Find("name")->AsTextString())
    return Bad(*backend.Find("name"), "the backend is called KERNEL@ENGINE");
  SLM_ASSIGN(const Hash256 id, Hash(backend, "id"));
  if (id != NodeId(BackendNode(run.backend)))
    return Bad(*backend.Find("id"), "the id is not that of this backend's profile");
  return run;
}

Result<Hash256> RecordBrowserRun(const ObjectSource& source, const ObjectSink& sink,
                                 const Hash256& artifact_node, std::string_view cases, ByteSpan container,
                                 const BrowserRun& run) {
  SLM_ASSIGN(const Node artifact, ReadNode(source, artifact_node));
  SLM_ASSIGN(const auto parsed, ParseCases(cases));
  SLM_ASSIGN(const auto golden, golden::Golden::Open(container));
  const Node backend = BackendNode(run.backend);
  SLM_TRY(CheckCandidateOfArtifact(HashOf(artifact, "root"), *golden));
  SLM_TRY(CheckCandidateOfBackend(backend, Sha256Of(AsBytes(cases)), *golden));
  SLM_TRY(CheckCasesOfContainer(parsed, *golden));
  SLM_ASSIGN(const Hash256 build_id, sink.put_node(RuntimeBuildNode(run.build)));
  SLM_ASSIGN(const Hash256 backend_id, sink.put_node(backend));
  SLM_ASSIGN(const Hash256 cases_blob, sink.put_blob(AsBytes(cases)));
  SLM_ASSIGN(const Hash256 blob, sink.put_blob(container));
  SLM_ASSIGN(const Hash256 suite,
             sink.put_node(MakeNode(
                 "case-suite",
                 {{"schema", "slm.case-suite.v1"}, {"blob", cases_blob}, {"n_cases", parsed.size()}}, {})));
  return sink.put_node(MakeNode("observation",
                                {{"schema", "slm.observation.v1"},
                                 {"blob", blob},
                                 {"artifact_blob", HashOf(artifact, "file_sha256")},
                                 {"envelope_sha256", golden->envelope_sha256()},
                                 {"engine", run.engine}},
                                {{"artifact", artifact_node},
                                 {"runtime-build", build_id},
                                 {"backend-profile", backend_id},
                                 {"case-suite", suite}}));
}

}  // namespace slm::evidence
