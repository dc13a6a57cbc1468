#include "convert/manifest_build.h"

#include <algorithm>
#include <utility>

#include "codec/sha256.h"
#include "slm_file/manifest.h"

namespace slm::convert {
namespace {

constexpr std::string_view kFillProof =
    "lanes without a row belong to the last group only; a matrix product writes no output for them and an "
    "embedding lookup reads rows below the vocabulary size only";

Bytes PathBytes(std::string_view text) {
  return {text.begin(), text.end()};
}

cbor::Array UintArray(const std::vector<uint64_t>& numbers) {
  cbor::Array array;
  for (const uint64_t number : numbers) array.emplace_back(number);
  return array;
}

cbor::Map SourceTensorMap(const SourceTensor& tensor) {
  return cbor::Map{{"file", tensor.file},   {"name", tensor.name},
                   {"dtype", tensor.dtype}, {"shape", UintArray(tensor.shape)},
                   {"begin", tensor.begin}, {"end", tensor.end}};
}

cbor::Array Transforms(const LedgerRow& row, const std::string& alias_name) {
  cbor::Array transforms;
  if (row.spec.alias_of) {
    if (row.sources.size() > 1) {
      transforms.emplace_back(cbor::Map{{"op", "drop-equal"}, {"of", row.sources[1]->name}});
    }
    transforms.emplace_back(cbor::Map{{"op", "alias"}, {"of", alias_name}});
    return transforms;
  }
  if (row.spec.layout == Layout::kRowMajor) {
    transforms.emplace_back(cbor::Map{{"op", "identity"}});
    return transforms;
  }
  const uint64_t groups = (row.spec.shape[0] + kRowsPerGroup - 1) / kRowsPerGroup;
  transforms.emplace_back(cbor::Map{{"op", "row-interleave-16"},
                                    {"rows", row.spec.shape[0]},
                                    {"cols", row.spec.shape[1]},
                                    {"padded_rows", groups * kRowsPerGroup},
                                    {"fill", "zero"},
                                    {"proof", kFillProof}});
  return transforms;
}

cbor::Map TensorMap(const LedgerRow& row, const std::string& alias_name) {
  cbor::Map map{{"name", row.spec.name},
                {"role", row.spec.role},
                {"shape", UintArray(row.spec.shape)},
                {"physical", UintArray(*PhysicalShape(row.spec.shape, row.spec.layout))},
                {"layout", LayoutName(row.spec.layout)},
                {"dtype", DTypeName(row.dtype)},
                {"transforms", Transforms(row, alias_name)}};
  if (row.spec.layer) map.Set("layer", *row.spec.layer);
  cbor::Array sources;
  for (const SourceTensor* source : row.sources) sources.emplace_back(SourceTensorMap(*source));
  map.Set("source", std::move(sources));
  return map;
}

cbor::Array TensorArray(const Ledger& ledger, size_t n_text_blobs) {
  std::vector<size_t> order(ledger.rows.size());
  std::vector<size_t> blob_of(ledger.rows.size());
  size_t next_blob = n_text_blobs;
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
    if (!ledger.rows[i].spec.alias_of) blob_of[i] = next_blob++;
  }
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return ledger.rows[a].spec.name < ledger.rows[b].spec.name; });
  std::vector<size_t> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  cbor::Array tensors;
  for (const size_t index : order) {
    const LedgerRow& row = ledger.rows[index];
    const std::optional<size_t> target = row.spec.alias_of;
    cbor::Map map = TensorMap(row, target ? ledger.rows[*target].spec.name : "");
    if (target) {
      map.Set("alias_of", place[*target]);
    } else {
      map.Set("blob", blob_of[index]);
    }
    tensors.emplace_back(std::move(map));
  }
  return tensors;
}

cbor::Array ColumnArray(const ConfigResult& config) {
  cbor::Array rows;
  for (const FieldRecord& record : config.records) {
    rows.emplace_back(cbor::Map{{"field", record.name},
                                {"publisher", record.publisher},
                                {"pinned", record.pinned},
                                {"undefined", record.undefined},
                                {"choice", record.choice}});
  }
  return rows;
}

cbor::Map SourceMap(const Source& source, const SourceTree& tree) {
  cbor::Array files;
  for (const SourceFile& file : tree.files()) {
    files.emplace_back(cbor::Map{{"path", PathBytes(file.path)}, {"size", file.size}, {"sha256", file.blob}});
  }
  return cbor::Map{{"acquisition", source.acquisition},
                   {"name", PathBytes(source.name)},
                   {"revision", PathBytes(source.revision)},
                   {"files", std::move(files)}};
}

cbor::Map ProfileMap(const FamilyProfile& profile) {
  return cbor::Map{{"family", profile.family()},
                   {"version", profile.version()},
                   {"sha256", profile.hash()},
                   {"pinned_source", profile.pinned_source()},
                   {"reviewer", profile.reviewer()}};
}

}  // namespace

cbor::Map BuildManifest(const Source& source, const SourceTree& tree, const FamilyProfile& profile,
                        const ConfigResult& config, const Ledger& ledger, std::span<const BlobEntry> blobs) {
  cbor::Map map{{"schema", kManifestSchema},
                {"producer", cbor::Map{{"name", "slm"}, {"version", "0.1.0"}}},
                {"source", SourceMap(source, tree)},
                {"license", cbor::Map{{"spdx", source.spdx}}},
                {"family_profile", ProfileMap(profile)},
                {"config", ConfigToCbor(config.config)},
                {"config_columns", ColumnArray(config)},
                {"quant_profiles", cbor::Array{}},
                {"required_features", cbor::Array{"rows16"}}};
  cbor::Array ignored;
  for (const IgnoredKey& key : config.ignored) {
    ignored.emplace_back(
        cbor::Map{{"file", key.file}, {"key", key.key}, {"value", key.value}, {"reason", key.reason}});
  }
  map.Set("ignored_metadata", std::move(ignored));
  cbor::Array sampling;
  for (const SamplingDeclaration& declaration : config.sampling) {
    sampling.emplace_back(cbor::Map{{"key", declaration.key}, {"value", declaration.value}});
  }
  map.Set("sampling_declarations", std::move(sampling));
  cbor::Array conflicts;
  for (const AcceptedConflict& conflict : config.accepted_conflicts) {
    conflicts.emplace_back(cbor::Map{{"code", Info(conflict.code).name},
                                     {"field", conflict.field},
                                     {"first", conflict.first},
                                     {"second", conflict.second}});
  }
  map.Set("accepted_conflicts", std::move(conflicts));
  cbor::Array blob_rows;
  size_t n_text_blobs = 0;
  for (const BlobEntry& blob : blobs) {
    if (blob.kind != kTensorBlobKind) ++n_text_blobs;
    blob_rows.emplace_back(cbor::Map{
        {"kind", blob.kind}, {"offset", blob.offset}, {"size", blob.size}, {"sha256", blob.sha256}});
  }
  map.Set("blobs", std::move(blob_rows));
  map.Set("tensors", TensorArray(ledger, n_text_blobs));
  cbor::Array omitted;
  for (const Omission& omission : ledger.omitted) {
    cbor::Map row = SourceTensorMap(*omission.source);
    row.Set("reason", omission.reason);
    omitted.emplace_back(std::move(row));
  }
  map.Set("omitted", std::move(omitted));
  return map;
}

std::vector<Node> BuildNodes(const Source& source, const FamilyProfile& profile, const ConfigResult& config,
                             const Outputs& outputs) {
  const auto member = [&](std::string_view key) { return *outputs.manifest->Find(key); };
  const Edge acquisition{"acquisition", source.acquisition};
  Node profile_node{"family-profile", ProfileMap(profile), {}};
  profile_node.metadata.Set("schema", "slm.family-profile.v1");
  Node config_node{"effective-config",
                   cbor::Map{{"schema", "slm.effective-config-node.v1"},
                             {"config", ConfigToCbor(config.config)},
                             {"columns", member("config_columns")},
                             {"ignored_metadata", member("ignored_metadata")},
                             {"sampling_declarations", member("sampling_declarations")},
                             {"accepted_conflicts", member("accepted_conflicts")}},
                   {acquisition, {"family-profile", NodeId(profile_node)}}};
  Node ledger_node{"tensor-ledger",
                   cbor::Map{{"schema", "slm.tensor-ledger.v1"},
                             {"blobs", member("blobs")},
                             {"tensors", member("tensors")},
                             {"omitted", member("omitted")}},
                   {acquisition, {"effective-config", NodeId(config_node)}}};
  Node tokenizer_node{"tokenizer",
                      cbor::Map{{"schema", "slm.tokenizer.v1"},
                                {"blob", outputs.tokenizer_blob},
                                {"reference", outputs.tokenizer_reference}},
                      {acquisition}};
  Node artifact_node{"artifact",
                     cbor::Map{{"schema", "slm.artifact.v1"},
                               {"root", outputs.root},
                               {"file_sha256", outputs.file_sha256},
                               {"size", outputs.file_size}},
                     {acquisition,
                      {"family-profile", NodeId(profile_node)},
                      {"effective-config", NodeId(config_node)},
                      {"tensor-ledger", NodeId(ledger_node)},
                      {"tokenizer", NodeId(tokenizer_node)}}};
  std::vector<Node> nodes{std::move(profile_node), std::move(config_node), std::move(ledger_node),
                          std::move(tokenizer_node)};
  if (outputs.template_source_blob) {
    nodes.push_back({"template",
                     cbor::Map{{"schema", "slm.template.v1"},
                               {"source_blob", *outputs.template_source_blob},
                               {"ir_blob", *outputs.template_ir_blob}},
                     {acquisition}});
    artifact_node.edges.push_back({"template", NodeId(nodes.back())});
    nodes.push_back({"template",
                     cbor::Map{{"schema", "slm.template-analysis.v1"}, {"report", outputs.template_report}},
                     {{"template", NodeId(nodes.back())}}});
  }
  nodes.push_back(std::move(artifact_node));
  return nodes;
}

}  // namespace slm::convert
