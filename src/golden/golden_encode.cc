// Content to envelope (golden.md sections 2 to 7).
#include <bit>

#include "golden/golden_internal.h"

namespace slm::golden {
namespace {

using cbor::Array;
using cbor::Map;
using cbor::Value;

Bytes PackPairs(std::span<const std::pair<uint32_t, uint32_t>> pairs) {
  Bytes bytes;
  for (const auto& [begin, end] : pairs) {
    AppendLe(&bytes, begin);
    AppendLe(&bytes, end);
  }
  return bytes;
}

Bytes PackF64(std::span<const double> values) {
  Bytes bytes;
  for (const double value : values) AppendLe(&bytes, std::bit_cast<uint64_t>(value));
  return bytes;
}

Array Shape(std::span<const uint64_t> shape) {
  return Array(shape.begin(), shape.end());
}

Map EncodeInterval(const Interval& interval) {
  return Map{{"begin", interval.begin}, {"count", interval.count}};
}

Value EncodeObservation(const Observation& observation) {
  Map map{{"blob", observation.blob},
          {"dtype", DTypeName(observation.dtype)},
          {"layout", LayoutName(observation.layout)},
          {"name", observation.name},
          {"role", observation.role},
          {"shape", Shape(observation.shape)}};
  if (observation.layer) map.Set("layer", *observation.layer);
  if (observation.rows) map.Set("rows", EncodeInterval(*observation.rows));
  if (observation.columns) {
    Map columns = EncodeInterval(*observation.columns);
    columns.Set("of", observation.full_columns);
    map.Set("columns", std::move(columns));
  }
  if (!observation.tolerance.empty()) map.Set("tolerance", observation.tolerance);
  return map;
}

template <typename List, typename Encode>
Array EncodeList(const List& list, Encode encode) {
  Array array;
  array.reserve(list.size());
  for (const auto& item : list) array.push_back(encode(item));
  return array;
}

Value EncodeTokenization(const Tokenization& tokenization) {
  Map map{{"add_special_tokens", tokenization.add_special_tokens},
          {"byte_offsets", PackPairs(tokenization.byte_offsets)},
          {"ids", PackU32(tokenization.ids)},
          {"of", tokenization.of},
          {"reference", tokenization.reference},
          {"scalar_offsets", PackPairs(tokenization.scalar_offsets)}};
  if (tokenization.decoded) map.Set("decoded", *tokenization.decoded);
  return map;
}

Value EncodeOwned(const OwnedInterval& interval) {
  return Map{{"begin", interval.begin}, {"end", interval.end}, {"owner", interval.owner}};
}

Value EncodeCase(const Case& one) {
  Map input{{"kind", InputKindName(one.input_kind)}};
  if (one.input) input.Set("data", *one.input);
  if (one.input_commitment) input.Set("commitment", *one.input_commitment);
  Map map{{"add_generation_prompt", one.add_generation_prompt},
          {"case_class", CaseClassName(one.case_class)},
          {"case_id", one.case_id},
          {"ids", PackU32(one.ids)},
          {"input", std::move(input)},
          {"mask", one.mask},
          {"max_new_tokens", one.max_new_tokens},
          {"observations", EncodeList(one.observations, EncodeObservation)},
          {"positions", EncodeInterval(one.positions)},
          {"tokenizations", EncodeList(one.tokenizations, EncodeTokenization)}};
  if (one.rendered) map.Set("rendered", *one.rendered);
  if (one.ownership) map.Set("ownership", EncodeList(*one.ownership, EncodeOwned));
  if (one.raw_output_commitment) map.Set("raw_output_commitment", *one.raw_output_commitment);
  if (one.generation) {
    const Generation& generation = *one.generation;
    map.Set("generation", Map{{"gaps", PackF64(generation.gaps)},
                              {"stop_reason", generation.stop_reason},
                              {"text", generation.text},
                              {"tokens", PackU32(generation.tokens)}});
  }
  return map;
}

Value EncodeField(const ConfigField& field) {
  Map map{{"name", field.name}, {"origin", field.origin}, {"value", field.value}};
  if (!field.file.empty()) map.Set("file", field.file);
  if (field.line != 0) map.Set("line", field.line);
  return map;
}

Value EncodeTensor(const TensorHash& tensor) {
  return Map{{"dtype", tensor.dtype},
             {"name", tensor.name},
             {"sha256", tensor.sha256},
             {"shape", Shape(tensor.shape)}};
}

Value EncodeAttachment(const Attachment& attachment) {
  return Map{{"blob", attachment.blob}, {"media_type", attachment.media_type}, {"name", attachment.name}};
}

Value EncodeBlob(const Blob& blob) {
  return Map{{"offset", blob.offset}, {"sha256", blob.sha256}, {"size", blob.size}};
}

}  // namespace

cbor::Array EncodeSourceFiles(const Content& content) {
  return EncodeList(content.source_files, [](const SourceFile& file) -> Value {
    return Map{{"path", file.path}, {"sha256", file.sha256}, {"size", file.size}};
  });
}

cbor::Array EncodeConfigValues(const Content& content) {
  return EncodeList(content.effective_config,
                    [](const ConfigField& field) -> Value { return Array{Value(field.name), field.value}; });
}

cbor::Map EncodeContent(const Content& content, std::span<const Blob> blobs) {
  Map identities;
  for (const auto& [role, hash] : content.identities) identities.Set(role, hash);
  return Map{{"attachments", EncodeList(content.attachments, EncodeAttachment)},
             {"blobs", EncodeList(blobs, EncodeBlob)},
             {"cases", EncodeList(content.cases, EncodeCase)},
             {"effective_config", EncodeList(content.effective_config, EncodeField)},
             {"generator", content.generator},
             {"identities", std::move(identities)},
             {"mode", ModeName(content.mode)},
             {"model_observations", EncodeList(content.model_observations, EncodeObservation)},
             {"required", Array{}},
             {"schema", kSchema},
             {"source_files", EncodeSourceFiles(content)},
             {"tensors", EncodeList(content.tensors, EncodeTensor)},
             {"tokenizer", content.tokenizer}};
}

}  // namespace slm::golden
