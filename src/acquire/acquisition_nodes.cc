#include "acquire/acquisition_nodes.h"

#include "acquire/conflict.h"
#include "codec/cbor.h"

namespace slm::acquire {
namespace {

constexpr std::string_view kFileSchema = "slm.source-file.v1";
constexpr std::string_view kTreeSchema = "slm.source-tree.v1";
constexpr std::string_view kLicenseSchema = "slm.license-decision.v1";
constexpr std::string_view kAcquisitionSchema = "slm.acquisition.v1";
constexpr size_t kMaxCensusRows = 1000;

Bytes PathBytes(const std::string& path) {
  return {path.begin(), path.end()};
}

cbor::Array Texts(const std::vector<std::string>& texts) {
  cbor::Array array;
  for (const std::string& text : texts) array.emplace_back(text);
  return array;
}

// Tensors with NaN or infinity; the first thousand by name and the number of all.
cbor::Map WeightsFacts(const StreamedFile& file) {
  cbor::Array rows;
  uint64_t n_tensors_nonfinite = 0;
  for (size_t i = 0; i < file.census.size(); ++i) {
    const safetensors::Census& census = file.census[i];
    if (!census.first_nonfinite) continue;
    ++n_tensors_nonfinite;
    if (rows.size() == kMaxCensusRows) continue;
    rows.emplace_back(cbor::Map{{"tensor", file.header->tensors[i].name},
                                {"nan", census.n_nan},
                                {"inf", census.n_inf},
                                {"first_index", *census.first_nonfinite}});
  }
  return cbor::Map{{"tensors", file.header->tensors.size()},
                   {"data_offset", file.header->data_offset},
                   {"flags", Texts(file.header->flags)},
                   {"nonfinite_tensors", n_tensors_nonfinite},
                   {"nonfinite", std::move(rows)}};
}

Result<SourceFile> ReadSourceFile(const Store& store, const Hash256& id) {
  SLM_ASSIGN(const Node node, store.GetNode(id));
  if (node.type != "source-file")
    return Fail(ErrorCode::kGraphSchema, "a tree holds a node that is no source-file");
  cbor::Reader reader(node.metadata);
  SourceFile file;
  file.node = id;
  SLM_ASSIGN(const std::string schema, reader.Text("schema"));
  if (schema != kFileSchema)
    return Fail(ErrorCode::kGraphSchema, "unknown schema of a source-file: " + schema);
  SLM_ASSIGN(const Bytes path, reader.ByteString("path"));
  file.path = AsText(path);
  SLM_ASSIGN(file.kind, reader.Text("kind"));
  SLM_ASSIGN(file.size, reader.Uint("size"));
  SLM_ASSIGN(file.blob, reader.Hash("blob"));
  (void)reader.Optional("weights");
  SLM_TRY(reader.Finish());
  return file;
}

Status ReadTexts(cbor::Reader* reader, std::string_view key, std::vector<std::string>* out) {
  SLM_ASSIGN(const cbor::Array* array, reader->ArrayOf(key));
  for (const cbor::Value& item : *array) {
    const std::string* text = item.AsTextString();
    if (text == nullptr)
      return Fail(MakeError(ErrorCode::kGraphSchema, "a list of texts is expected").Field(key));
    out->push_back(*text);
  }
  return {};
}

Status ReadChoices(cbor::Reader* reader, std::vector<ConflictChoice>* out) {
  SLM_ASSIGN(const cbor::Array* array, reader->ArrayOf("choices"));
  for (const cbor::Value& item : *array) {
    const cbor::Map* map = item.AsMap();
    if (map == nullptr) return Fail(ErrorCode::kGraphSchema, "a choice is a map");
    cbor::Reader row(*map, "choices");
    ConflictChoice choice;
    SLM_ASSIGN(choice.code, row.Text("code"));
    SLM_ASSIGN(choice.field, row.Text("field"));
    SLM_ASSIGN(choice.ref, row.Text("ref"));
    SLM_ASSIGN(choice.conflict, row.Hash("conflict"));
    SLM_TRY(row.Finish());
    out->push_back(std::move(choice));
  }
  return {};
}

Status ReadIgnored(cbor::Reader* reader, std::vector<IgnoredKey>* out) {
  SLM_ASSIGN(const cbor::Array* array, reader->ArrayOf("ignored_metadata"));
  for (const cbor::Value& item : *array) {
    const cbor::Map* map = item.AsMap();
    if (map == nullptr) return Fail(ErrorCode::kGraphSchema, "a key without effect is a map");
    cbor::Reader row(*map, "ignored_metadata");
    IgnoredKey ignored;
    SLM_ASSIGN(ignored.file, row.Text("file"));
    SLM_ASSIGN(ignored.key, row.Text("key"));
    SLM_ASSIGN(ignored.value, row.Text("value"));
    SLM_ASSIGN(ignored.reason, row.Text("reason"));
    SLM_TRY(row.Finish());
    out->push_back(std::move(ignored));
  }
  return {};
}

}  // namespace

Node SourceFileNode(const StreamedFile& file) {
  Node node;
  node.type = "source-file";
  node.metadata = cbor::Map{{"schema", kFileSchema},
                            {"path", PathBytes(file.path)},
                            {"kind", file.kind},
                            {"size", file.size},
                            {"blob", file.blob}};
  if (file.header) node.metadata.Set("weights", WeightsFacts(file));
  return node;
}

Node SourceTreeNode(std::span<const SourceFile> files) {
  Node node;
  node.type = "source-tree";
  uint64_t total_bytes = 0;
  for (const SourceFile& file : files) {
    total_bytes += file.size;
    node.edges.push_back({"file", file.node});
  }
  node.metadata = cbor::Map{{"schema", kTreeSchema}, {"files", files.size()}, {"bytes", total_bytes}};
  return node;
}

Node LicenseNode(const LicenseOutcome& outcome, const LicenseTables& tables) {
  cbor::Array evidence;
  for (const LicenseEvidence& item : outcome.evidence) {
    evidence.emplace_back(cbor::Map{{"path", PathBytes(item.path)},
                                    {"blob", item.blob},
                                    {"byte_offset", item.byte_offset},
                                    {"value", ShortenedText(item.value)},
                                    {"spdx", item.spdx},
                                    {"rule", item.rule}});
  }
  Node node;
  node.type = "license-decision";
  node.metadata = cbor::Map{{"schema", kLicenseSchema},
                            {"spdx", outcome.spdx},
                            {"redistribution", outcome.redistribution},
                            {"attribution", outcome.attribution},
                            {"duties", outcome.duties},
                            {"settled_by", outcome.settled_by},
                            {"evidence", std::move(evidence)},
                            {"cards_table", tables.cards_hash},
                            {"texts_table", tables.texts_hash}};
  node.edges = outcome.edges;
  return node;
}

Node AcquisitionNode(const Acquisition& acquisition, const Profile& profile) {
  cbor::Array choices;
  for (const ConflictChoice& choice : acquisition.choices) {
    choices.emplace_back(cbor::Map{
        {"code", choice.code}, {"field", choice.field}, {"ref", choice.ref}, {"conflict", choice.conflict}});
  }
  cbor::Array ignored;
  for (const IgnoredKey& key : acquisition.ignored_metadata) {
    ignored.emplace_back(
        cbor::Map{{"file", key.file}, {"key", key.key}, {"value", key.value}, {"reason", key.reason}});
  }
  Node node;
  node.type = "acquisition";
  node.metadata = cbor::Map{{"schema", kAcquisitionSchema},
                            {"name", acquisition.name},
                            {"revision", acquisition.revision},
                            {"transport", "directory"},
                            {"binding", "asserted"},
                            {"profile", profile.hash},
                            {"profile_name", profile.name},
                            {"spdx", acquisition.spdx},
                            {"redistribution", acquisition.redistribution},
                            {"weights", Texts(acquisition.weights)},
                            {"flags", Texts(acquisition.flags)},
                            {"choices", std::move(choices)},
                            {"ignored_metadata", std::move(ignored)}};
  node.edges.push_back({"source-tree", acquisition.tree});
  node.edges.push_back({"license", acquisition.license});
  for (const Hash256& id : acquisition.conflicts) node.edges.push_back({"conflict", id});
  for (const Hash256& id : acquisition.decisions) node.edges.push_back({"decision", id});
  return node;
}

bool IsAcquisitionDecision(std::string_view kind) {
  return kind == "license" || kind == "accept-conflict" || kind == "config-field";
}

const SourceFile* Acquisition::Find(std::string_view path) const {
  for (const SourceFile& file : files) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

Result<Acquisition> LoadAcquisition(const Store& store, const Hash256& id) {
  SLM_ASSIGN(const Node node, store.GetNode(id));
  if (node.type != "acquisition") {
    return Fail(ErrorCode::kGraphSchema, "node " + ToHex(id) + " is a " + node.type + ", not an acquisition");
  }
  Acquisition acquisition;
  acquisition.id = id;
  cbor::Reader reader(node.metadata);
  SLM_ASSIGN(const std::string schema, reader.Text("schema"));
  if (schema != kAcquisitionSchema) {
    return Fail(ErrorCode::kGraphSchema, "unknown schema of an acquisition: " + schema);
  }
  SLM_ASSIGN(acquisition.name, reader.Text("name"));
  SLM_ASSIGN(acquisition.revision, reader.Text("revision"));
  SLM_TRY(reader.Text("transport"));
  SLM_TRY(reader.Text("binding"));
  SLM_TRY(reader.Hash("profile"));
  SLM_TRY(reader.Text("profile_name"));
  SLM_ASSIGN(acquisition.spdx, reader.Text("spdx"));
  SLM_ASSIGN(acquisition.redistribution, reader.Text("redistribution"));
  SLM_TRY(ReadTexts(&reader, "weights", &acquisition.weights));
  SLM_TRY(ReadTexts(&reader, "flags", &acquisition.flags));
  SLM_TRY(ReadChoices(&reader, &acquisition.choices));
  SLM_TRY(ReadIgnored(&reader, &acquisition.ignored_metadata));
  SLM_TRY(reader.Finish());

  const Hash256* tree_id = node.Child("source-tree");
  const Hash256* license_id = node.Child("license");
  if (tree_id == nullptr || license_id == nullptr) {
    return Fail(ErrorCode::kGraphSchema, "an acquisition has a source-tree and a license");
  }
  acquisition.tree = *tree_id;
  acquisition.license = *license_id;
  acquisition.conflicts = node.Children("conflict");
  acquisition.decisions = node.Children("decision");
  for (const Hash256& decision_id : acquisition.decisions) {
    SLM_ASSIGN(const Node decision, store.GetNode(decision_id));
    const cbor::Value* kind = decision.metadata.Find("kind");
    if (kind == nullptr || kind->AsTextString() == nullptr || *kind->AsTextString() != "config-field")
      continue;
    cbor::Reader row(decision.metadata);
    SLM_ASSIGN(const std::string key, row.Text("choice"));
    SLM_ASSIGN(const Hash256 statement, row.Hash("statement"));
    acquisition.documentary_keys.push_back({key, ToHex(statement)});
  }
  SLM_ASSIGN(const Node tree, store.GetNode(*tree_id));
  if (tree.type != "source-tree")
    return Fail(ErrorCode::kGraphSchema, "the tree of an acquisition is no source-tree");
  for (const Hash256& file_id : tree.Children("file")) {
    SLM_ASSIGN(SourceFile file, ReadSourceFile(store, file_id));
    acquisition.files.push_back(std::move(file));
  }
  return acquisition;
}

}  // namespace slm::acquire
