// Envelope to content: kinds of values and closed maps. Relations between parts: golden_check.cc.
#include <bit>
#include <limits>

#include "golden/golden_internal.h"

namespace slm::golden {
namespace {

using cbor::Array;
using cbor::Map;
using cbor::Reader;
using cbor::Value;

Error BadValue(std::string message, std::string_view field) {
  return MakeError(ErrorCode::kSchemaValue, std::move(message)).Field(field);
}

// Calls parse(map, path) for each element of the array `key`, which holds maps only.
template <typename T, typename Parse>
Result<std::vector<T>> List(Reader& reader, std::string_view key, const std::string& path, Parse parse) {
  SLM_ASSIGN(const Array* array, reader.ArrayOf(key));
  std::vector<T> list;
  list.reserve(array->size());
  for (size_t i = 0; i < array->size(); ++i) {
    std::string item_path = path;
    if (!item_path.empty()) item_path += '.';
    item_path.append(key).append(".").append(std::to_string(i));
    const Map* map = (*array)[i].AsMap();
    if (map == nullptr)
      return Fail(MakeError(ErrorCode::kSchemaType, "a map is needed here").Field(item_path));
    SLM_ASSIGN(T item, parse(*map, item_path));
    list.push_back(std::move(item));
  }
  return list;
}

// A text of a closed list.
template <typename Enum>
Result<Enum> Name(Reader& reader, std::string_view key, const std::string& path,
                  std::optional<Enum> (*find)(std::string_view)) {
  SLM_ASSIGN(const std::string text, reader.Text(key));
  const std::optional<Enum> value = find(text);
  if (!value) return Fail(BadValue("'" + text + "' is not on the list", path + "." + std::string(key)));
  return *value;
}

Result<std::vector<uint64_t>> Shape(Reader& reader, const std::string& path) {
  SLM_ASSIGN(const Array* array, reader.ArrayOf("shape"));
  std::vector<uint64_t> shape;
  for (const Value& value : *array) {
    const uint64_t* number = value.AsUint();
    if (number == nullptr)
      return Fail(MakeError(ErrorCode::kSchemaType, "an axis is not a number").Field(path + ".shape"));
    shape.push_back(*number);
  }
  return shape;
}

// A byte string as an array of N-byte items.
Result<Bytes> Packed(Reader& reader, std::string_view key, const std::string& path, size_t item_bytes) {
  SLM_ASSIGN(Bytes bytes, reader.ByteString(key));
  if (bytes.size() % item_bytes != 0) return Fail(BadValue("not whole items", path + "." + std::string(key)));
  return bytes;
}

Result<std::vector<uint32_t>> U32List(Reader& reader, std::string_view key, const std::string& path) {
  SLM_ASSIGN(const Bytes bytes, Packed(reader, key, path, 4));
  std::vector<uint32_t> values(bytes.size() / 4);
  for (size_t i = 0; i < values.size(); ++i) values[i] = LoadLe<uint32_t>(bytes.data() + 4 * i);
  return values;
}

Result<std::vector<std::pair<uint32_t, uint32_t>>> PairList(Reader& reader, std::string_view key,
                                                            const std::string& path) {
  SLM_ASSIGN(const Bytes bytes, Packed(reader, key, path, 8));
  std::vector<std::pair<uint32_t, uint32_t>> values(bytes.size() / 8);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = {LoadLe<uint32_t>(bytes.data() + 8 * i), LoadLe<uint32_t>(bytes.data() + 8 * i + 4)};
  }
  return values;
}

// An optional map, parsed by `parse` where it stands.
template <typename T, typename Parse>
Result<std::optional<T>> Optional(Reader& reader, std::string_view key, const std::string& path,
                                  Parse parse) {
  if (reader.Optional(key) == nullptr) return std::optional<T>();
  SLM_ASSIGN(const Map* map, reader.MapOf(key));
  SLM_ASSIGN(T value, parse(*map, path + "." + std::string(key)));
  return std::optional<T>(std::move(value));
}

Result<Interval> ParseInterval(const Map& map, const std::string& path) {
  Reader reader(map, path);
  Interval interval;
  SLM_ASSIGN(interval.begin, reader.Uint("begin"));
  SLM_ASSIGN(interval.count, reader.Uint("count"));
  SLM_TRY(reader.Finish());
  return interval;
}

Status ParseColumns(Reader& parent, const std::string& path, Observation* observation) {
  if (parent.Optional("columns") == nullptr) return {};
  SLM_ASSIGN(const Map* map, parent.MapOf("columns"));
  Reader reader(*map, path + ".columns");
  Interval columns;
  SLM_ASSIGN(columns.begin, reader.Uint("begin"));
  SLM_ASSIGN(columns.count, reader.Uint("count"));
  SLM_ASSIGN(observation->full_columns, reader.Uint("of"));
  observation->columns = columns;
  return reader.Finish();
}

Result<Observation> ParseObservation(const Map& map, const std::string& path) {
  Reader reader(map, path);
  Observation observation;
  SLM_ASSIGN(observation.name, reader.Text("name"));
  SLM_ASSIGN(observation.role, reader.Text("role"));
  SLM_ASSIGN(observation.dtype, Name(reader, "dtype", path, DTypeOf));
  SLM_ASSIGN(observation.layout, Name(reader, "layout", path, LayoutOf));
  SLM_ASSIGN(observation.blob, reader.Uint("blob"));
  SLM_ASSIGN(observation.shape, Shape(reader, path));
  if (reader.Optional("layer") != nullptr) {
    SLM_ASSIGN(const uint64_t layer, reader.Uint("layer"));
    if (layer > std::numeric_limits<uint32_t>::max()) return Fail(BadValue("no such layer", path + ".layer"));
    observation.layer = static_cast<uint32_t>(layer);
  }
  SLM_ASSIGN(observation.rows, Optional<Interval>(reader, "rows", path, ParseInterval));
  SLM_TRY(ParseColumns(reader, path, &observation));
  if (reader.Optional("tolerance") != nullptr) {
    SLM_ASSIGN(observation.tolerance, reader.Text("tolerance"));
    if (observation.tolerance.empty()) return Fail(BadValue("an empty class", path + ".tolerance"));
  }
  SLM_TRY(reader.Finish());
  return observation;
}

Result<Tokenization> ParseTokenization(const Map& map, const std::string& path) {
  Reader reader(map, path);
  Tokenization tokenization;
  SLM_ASSIGN(tokenization.reference, reader.Text("reference"));
  SLM_ASSIGN(tokenization.of, reader.Text("of"));
  SLM_ASSIGN(tokenization.add_special_tokens, reader.Bool("add_special_tokens"));
  SLM_ASSIGN(tokenization.ids, U32List(reader, "ids", path));
  SLM_ASSIGN(tokenization.byte_offsets, PairList(reader, "byte_offsets", path));
  SLM_ASSIGN(tokenization.scalar_offsets, PairList(reader, "scalar_offsets", path));
  if (reader.Optional("decoded") != nullptr) {
    SLM_ASSIGN(tokenization.decoded, reader.ByteString("decoded"));
  }
  SLM_TRY(reader.Finish());
  return tokenization;
}

Result<OwnedInterval> ParseOwned(const Map& map, const std::string& path) {
  Reader reader(map, path);
  OwnedInterval interval;
  SLM_ASSIGN(interval.begin, reader.Uint("begin"));
  SLM_ASSIGN(interval.end, reader.Uint("end"));
  SLM_ASSIGN(interval.owner, reader.Text("owner"));
  SLM_TRY(reader.Finish());
  return interval;
}

Result<Generation> ParseGeneration(const Map& map, const std::string& path) {
  Reader reader(map, path);
  Generation generation;
  SLM_ASSIGN(generation.tokens, U32List(reader, "tokens", path));
  SLM_ASSIGN(const Bytes gaps, Packed(reader, "gaps", path, 8));
  for (size_t i = 0; i < gaps.size(); i += 8) {
    generation.gaps.push_back(std::bit_cast<double>(LoadLe<uint64_t>(gaps.data() + i)));
  }
  SLM_ASSIGN(generation.text, reader.ByteString("text"));
  SLM_ASSIGN(generation.stop_reason, reader.Text("stop_reason"));
  SLM_TRY(reader.Finish());
  return generation;
}

Status ParseInput(Reader& parent, const std::string& path, Case* one) {
  SLM_ASSIGN(const Map* map, parent.MapOf("input"));
  Reader reader(*map, path + ".input");
  SLM_ASSIGN(one->input_kind, Name(reader, "kind", path + ".input", InputKindOf));
  if (reader.Optional("data") != nullptr) {
    SLM_ASSIGN(one->input, reader.ByteString("data"));
  }
  if (reader.Optional("commitment") != nullptr) {
    SLM_ASSIGN(one->input_commitment, reader.Hash("commitment"));
  }
  return reader.Finish();
}

Result<Case> ParseCase(const Map& map, const std::string& path) {
  Reader reader(map, path);
  Case one;
  SLM_ASSIGN(one.case_id, reader.Text("case_id"));
  SLM_ASSIGN(one.case_class, Name(reader, "case_class", path, CaseClassOf));
  SLM_TRY(ParseInput(reader, path, &one));
  SLM_ASSIGN(one.ids, U32List(reader, "ids", path));
  SLM_ASSIGN(const Map* positions, reader.MapOf("positions"));
  SLM_ASSIGN(one.positions, ParseInterval(*positions, path + ".positions"));
  SLM_ASSIGN(one.mask, reader.Text("mask"));
  SLM_ASSIGN(one.max_new_tokens, reader.Uint("max_new_tokens"));
  SLM_ASSIGN(one.add_generation_prompt, reader.Bool("add_generation_prompt"));
  if (reader.Optional("rendered") != nullptr) {
    SLM_ASSIGN(one.rendered, reader.ByteString("rendered"));
  }
  if (reader.Optional("ownership") != nullptr) {
    SLM_ASSIGN(one.ownership, List<OwnedInterval>(reader, "ownership", path, ParseOwned));
  }
  SLM_ASSIGN(one.tokenizations, List<Tokenization>(reader, "tokenizations", path, ParseTokenization));
  SLM_ASSIGN(one.observations, List<Observation>(reader, "observations", path, ParseObservation));
  SLM_ASSIGN(one.generation, Optional<Generation>(reader, "generation", path, ParseGeneration));
  if (reader.Optional("raw_output_commitment") != nullptr) {
    SLM_ASSIGN(one.raw_output_commitment, reader.Hash("raw_output_commitment"));
  }
  SLM_TRY(reader.Finish());
  return one;
}

Result<SourceFile> ParseSourceFile(const Map& map, const std::string& path) {
  Reader reader(map, path);
  SourceFile file;
  SLM_ASSIGN(file.path, reader.ByteString("path"));
  SLM_ASSIGN(file.size, reader.Uint("size"));
  SLM_ASSIGN(file.sha256, reader.Hash("sha256"));
  SLM_TRY(reader.Finish());
  return file;
}

Result<ConfigField> ParseField(const Map& map, const std::string& path) {
  Reader reader(map, path);
  ConfigField field;
  SLM_ASSIGN(field.name, reader.Text("name"));
  SLM_ASSIGN(field.origin, reader.Text("origin"));
  const Value* value = reader.Optional("value");
  if (value == nullptr || value->is_null()) {
    return Fail(MakeError(ErrorCode::kSchemaMissing, "the value is required").Field(path + ".value"));
  }
  field.value = *value;
  if (reader.Optional("file") != nullptr) {
    SLM_ASSIGN(field.file, reader.Text("file"));
  }
  if (reader.Optional("line") != nullptr) {
    SLM_ASSIGN(field.line, reader.Uint("line"));
  }
  SLM_TRY(reader.Finish());
  return field;
}

Result<TensorHash> ParseTensor(const Map& map, const std::string& path) {
  Reader reader(map, path);
  TensorHash tensor;
  SLM_ASSIGN(tensor.name, reader.Text("name"));
  SLM_ASSIGN(tensor.dtype, reader.Text("dtype"));
  SLM_ASSIGN(tensor.shape, Shape(reader, path));
  SLM_ASSIGN(tensor.sha256, reader.Hash("sha256"));
  SLM_TRY(reader.Finish());
  return tensor;
}

Result<Attachment> ParseAttachment(const Map& map, const std::string& path) {
  Reader reader(map, path);
  Attachment attachment;
  SLM_ASSIGN(attachment.name, reader.Text("name"));
  SLM_ASSIGN(attachment.media_type, reader.Text("media_type"));
  SLM_ASSIGN(attachment.blob, reader.Uint("blob"));
  SLM_TRY(reader.Finish());
  return attachment;
}

Result<Blob> ParseBlob(const Map& map, const std::string& path) {
  Reader reader(map, path);
  Blob blob;
  SLM_ASSIGN(blob.offset, reader.Uint("offset"));
  SLM_ASSIGN(blob.size, reader.Uint("size"));
  SLM_ASSIGN(blob.sha256, reader.Hash("sha256"));
  SLM_TRY(reader.Finish());
  return blob;
}

Status ParseIdentities(Reader& parent, Content* content) {
  SLM_ASSIGN(const Map* map, parent.MapOf("identities"));
  Reader reader(*map, "identities");
  for (const auto& [role, value] : *map) {
    SLM_ASSIGN(content->identities[role], reader.Hash(role));
  }
  return {};
}

Status CheckHead(Reader& reader) {
  SLM_ASSIGN(const std::string schema, reader.Text("schema"));
  if (schema != kSchema)
    return Fail(MakeError(ErrorCode::kGldVersion, "another schema: " + schema).Field("schema"));
  SLM_ASSIGN(const Array* required, reader.ArrayOf("required"));
  if (!required->empty()) {
    return Fail(MakeError(ErrorCode::kGldVersion, "the file needs features that this version does not know")
                    .Field("required"));
  }
  return {};
}

Result<Envelope> Parse(const Map& map) {
  Reader reader(map);
  SLM_TRY(CheckHead(reader));
  Envelope envelope;
  Content& content = envelope.content;
  SLM_ASSIGN(const std::string mode, reader.Text("mode"));
  const std::optional<Mode> known_mode = ModeOf(mode);
  if (!known_mode) return Fail(BadValue("'" + mode + "' is not a mode", "mode"));
  content.mode = *known_mode;
  SLM_TRY(ParseIdentities(reader, &content));
  SLM_ASSIGN(const Map* generator, reader.MapOf("generator"));
  content.generator = *generator;
  SLM_ASSIGN(const Map* tokenizer, reader.MapOf("tokenizer"));
  content.tokenizer = *tokenizer;
  SLM_ASSIGN(content.source_files, List<SourceFile>(reader, "source_files", "", ParseSourceFile));
  SLM_ASSIGN(content.effective_config, List<ConfigField>(reader, "effective_config", "", ParseField));
  SLM_ASSIGN(content.tensors, List<TensorHash>(reader, "tensors", "", ParseTensor));
  SLM_ASSIGN(content.model_observations,
             List<Observation>(reader, "model_observations", "", ParseObservation));
  SLM_ASSIGN(content.attachments, List<Attachment>(reader, "attachments", "", ParseAttachment));
  SLM_ASSIGN(content.cases, List<Case>(reader, "cases", "", ParseCase));
  SLM_ASSIGN(envelope.blobs, List<Blob>(reader, "blobs", "", ParseBlob));
  SLM_TRY(reader.Finish());
  return envelope;
}

}  // namespace

Result<Envelope> ParseEnvelope(const cbor::Map& map) {
  auto envelope = Parse(map);
  if (envelope) return envelope;
  Error error = std::move(envelope).error();
  if (error.code != ErrorCode::kGldVersion) {
    error.cause = error.code;
    error.code = ErrorCode::kGldSchema;
  }
  return Fail(std::move(error));
}

}  // namespace slm::golden
