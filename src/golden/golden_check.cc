// What relates the parts of a golden file to each other (golden.md sections 2 to 8).
#include <algorithm>
#include <set>

#include "base/checked.h"
#include "base/utf8.h"
#include "codec/sha256.h"
#include "golden/golden_internal.h"

namespace slm::golden {
namespace {

constexpr std::array<std::string_view, 8> kIdentityRoles = {"source",    "config",   "tokenizer", "template",
                                                            "generator", "artifact", "runtime",   "backend"};
constexpr std::array<std::string_view, 4> kOrigins = {"config.json", "generation_config.json", "default",
                                                      "derived"};
constexpr std::array<std::string_view, 5> kStopReasons = {"eos", "stop_id", "stop_string", "length",
                                                          "context"};

template <size_t N>
bool Contains(const std::array<std::string_view, N>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

std::unexpected<Error> ShapeError(const Observation& observation, std::string message) {
  return Fail(MakeError(ErrorCode::kGldShape, std::move(message)).Field(observation.name));
}

// True if `key` of the elements strictly increases.
template <typename List, typename Key>
bool IsIncreasing(const List& list, Key key) {
  for (size_t i = 1; i < list.size(); ++i) {
    if (!(key(list[i - 1]) < key(list[i]))) return false;
  }
  return true;
}

template <typename List>
bool HasDuplicateName(const List& list) {
  std::set<std::string_view> names;
  for (const auto& item : list) {
    if (!names.insert(item.name).second) return true;
  }
  return false;
}

Status CheckIdentity(const Content& content, std::string_view role, const Hash256& expected) {
  const auto found = content.identities.find(role);
  if (found != content.identities.end() && found->second == expected) return {};
  return SchemaError("the identity is not the hash of what it names", "identities." + std::string(role));
}

Status CheckIdentities(const Content& content) {
  for (const auto& [role, hash] : content.identities) {
    if (!Contains(kIdentityRoles, role)) return SchemaError("no such identity", "identities." + role);
  }
  SLM_TRY(CheckIdentity(content, "generator", Sha256Of(cbor::Encode(content.generator))));
  if (!content.source_files.empty()) {
    SLM_TRY(CheckIdentity(content, "source", Sha256Of(cbor::Encode(EncodeSourceFiles(content)))));
  }
  if (!content.effective_config.empty()) {
    SLM_TRY(CheckIdentity(content, "config", Sha256Of(cbor::Encode(EncodeConfigValues(content)))));
  }
  return {};
}

Status CheckLists(const Content& content) {
  if (!IsIncreasing(content.source_files, [](const SourceFile& file) { return file.path; })) {
    return SchemaError("paths are not in increasing order", "source_files");
  }
  if (!IsIncreasing(content.effective_config,
                    [](const ConfigField& field) { return std::string_view(field.name); })) {
    return SchemaError("names are not in increasing order", "effective_config");
  }
  for (const ConfigField& field : content.effective_config) {
    const bool is_pinned = field.origin == "default" || field.origin == "derived";
    if (!Contains(kOrigins, field.origin) || is_pinned == field.file.empty() ||
        is_pinned == (field.line == 0)) {
      return SchemaError("origin, file and line do not fit each other", "effective_config." + field.name);
    }
  }
  if (!IsIncreasing(content.tensors,
                    [](const TensorHash& tensor) { return std::string_view(tensor.name); })) {
    return SchemaError("names are not in increasing order", "tensors");
  }
  if (HasDuplicateName(content.attachments)) return SchemaError("a name stands twice", "attachments");
  if (HasDuplicateName(content.model_observations))
    return SchemaError("a name stands twice", "model_observations");
  return {};
}

bool HasIntervals(const std::vector<std::pair<uint32_t, uint32_t>>& offsets, size_t count, size_t end) {
  return offsets.size() == count && std::all_of(offsets.begin(), offsets.end(), [end](const auto& interval) {
           return interval.first <= interval.second && interval.second <= end;
         });
}

Status CheckTokenizations(const Case& one) {
  for (const Tokenization& tokenization : one.tokenizations) {
    const bool is_rendered = tokenization.of == "rendered";
    if (tokenization.reference != "published" && tokenization.reference != "effective") {
      return SchemaError("reference is published or effective", one.case_id + ".tokenizations");
    }
    if ((is_rendered && !one.rendered) || (!is_rendered && tokenization.of != "input")) {
      return SchemaError("of names no text of the case", one.case_id + ".tokenizations");
    }
    const Bytes& text = is_rendered ? *one.rendered : *one.input;
    if (FindUtf8Fault(AsText(text))) return SchemaError("not text", one.case_id + ".tokenizations");
    if (!HasIntervals(tokenization.byte_offsets, tokenization.ids.size(), text.size()) ||
        !HasIntervals(tokenization.scalar_offsets, tokenization.ids.size(), CountScalars(AsText(text)))) {
      return SchemaError("offsets do not fit ids and text", one.case_id + ".tokenizations");
    }
  }
  return {};
}

// Intervals that cover the rendered prompt, each as long as its owner goes on.
Status CheckOwnership(const Case& one) {
  if (!one.ownership) return {};
  const std::string field = one.case_id + ".ownership";
  if (!one.rendered) return SchemaError("owners of a prompt that was not rendered", field);
  uint64_t at = 0;
  std::string_view previous;
  for (const OwnedInterval& interval : *one.ownership) {
    if (interval.begin != at || interval.end <= at || interval.owner.empty() || interval.owner == previous) {
      return SchemaError("the intervals do not cover the rendered prompt in order, one for each owner",
                         field);
    }
    at = interval.end;
    previous = interval.owner;
  }
  if (at != one.rendered->size()) return SchemaError("the intervals end before or after the prompt", field);
  return {};
}

Status CheckGeneration(const Case& one) {
  if (!one.generation) return {};
  const Generation& generation = *one.generation;
  const std::string field = one.case_id + ".generation";
  if (generation.gaps.size() != generation.tokens.size()) return SchemaError("one gap for each token", field);
  if (!Contains(kStopReasons, generation.stop_reason)) return SchemaError("no such stop reason", field);
  if (generation.tokens.size() > one.max_new_tokens)
    return SchemaError("more tokens than max_new_tokens", field);
  if (one.raw_output_commitment != RawOutputCommitment(generation)) {
    return SchemaError("raw_output_commitment is not the hash of the output", field);
  }
  return {};
}

// GLD-02: a sealed case shows commitments only.
Status CheckSealed(const Case& one) {
  if (one.input || !one.input_commitment || !one.ids.empty() || one.positions.count != 0 || one.rendered ||
      one.ownership || !one.tokenizations.empty() || !one.observations.empty() || one.generation) {
    return SchemaError("a private case holds more than commitments", one.case_id);
  }
  return {};
}

Status CheckPublicInput(const Case& one) {
  if (!one.input || one.input_commitment)
    return SchemaError("a public case holds its input", one.case_id + ".input");
  const bool is_text = one.input_kind == InputKind::kUtf8 || one.input_kind == InputKind::kMessages;
  if (is_text && FindUtf8Fault(AsText(*one.input))) {
    return SchemaError("not well-formed UTF-8", one.case_id + ".input.data");
  }
  if (one.input_kind == InputKind::kTokenIds && *one.input != PackU32(one.ids)) {
    return SchemaError("input and ids differ", one.case_id + ".ids");
  }
  if (one.ids.empty() || one.positions.count != one.ids.size()) {
    return SchemaError("one position for each id", one.case_id + ".positions");
  }
  if (one.generation.has_value() != one.raw_output_commitment.has_value()) {
    return SchemaError("generation and commitment stand together", one.case_id + ".raw_output_commitment");
  }
  return {};
}

Status CheckCase(const Case& one, std::span<const Blob> blobs) {
  if (one.case_id.empty() || one.case_id.size() > 128) return SchemaError("1 to 128 bytes", "case_id");
  if (one.mask != "causal") return SchemaError("no such mask", one.case_id + ".mask");
  if (one.positions.begin > kMaxPositions || one.positions.count > kMaxPositions) {
    return Fail(MakeError(ErrorCode::kGldShape, "too many positions").Field(one.case_id));
  }
  if (one.add_generation_prompt && one.input_kind != InputKind::kMessages) {
    return SchemaError("belongs to messages", one.case_id + ".add_generation_prompt");
  }
  if (one.case_class == CaseClass::kPrivateBehaviorCommitment) return CheckSealed(one);
  SLM_TRY(CheckPublicInput(one));
  SLM_TRY(CheckTokenizations(one));
  SLM_TRY(CheckOwnership(one));
  SLM_TRY(CheckGeneration(one));
  if (HasDuplicateName(one.observations))
    return SchemaError("a name stands twice", one.case_id + ".observations");
  for (const Observation& observation : one.observations) {
    SLM_TRY(CheckObservation(observation, one.positions.count, blobs));
  }
  return {};
}

Status CheckBlobUse(const Content& content, std::span<const Blob> blobs) {
  std::vector<bool> is_used(blobs.size(), false);
  const auto use = [&is_used](uint64_t blob) { is_used[static_cast<size_t>(blob)] = true; };
  for (const Attachment& attachment : content.attachments) {
    if (attachment.blob >= blobs.size()) {
      return Fail(MakeError(ErrorCode::kGldBlob, "no such blob").Field(attachment.name));
    }
    use(attachment.blob);
  }
  for (const Observation& observation : content.model_observations) use(observation.blob);
  for (const Case& one : content.cases) {
    for (const Observation& observation : one.observations) use(observation.blob);
  }
  const auto unused = std::find(is_used.begin(), is_used.end(), false);
  if (unused != is_used.end()) {
    return Fail(MakeError(ErrorCode::kGldBlob, "a blob that nothing names")
                    .Field("blobs." + std::to_string(unused - is_used.begin())));
  }
  std::set<Hash256> hashes;
  for (const Blob& blob : blobs) {
    if (!hashes.insert(blob.sha256).second) {
      return Fail(MakeError(ErrorCode::kGldBlob, "the same blob twice").Field("blobs"));
    }
  }
  return {};
}

// Selections against the case's positions; returns the first position kept and how many.
Result<Interval> KeptRows(const Observation& observation, std::optional<uint64_t> n_positions) {
  if (!n_positions) {
    if (observation.rows) return ShapeError(observation, "rows outside a case");
    return Interval{0, observation.shape.front()};
  }
  if (!observation.rows) return Interval{0, *n_positions};
  const Interval rows = *observation.rows;
  if (rows.count == 0 || rows.count > *n_positions || rows.begin > *n_positions - rows.count ||
      rows.count == *n_positions) {
    return ShapeError(observation, "rows are not a proper part of the positions");
  }
  return rows;
}

Status CheckColumns(const Observation& observation) {
  if (!observation.columns) {
    if (observation.full_columns != 0) return ShapeError(observation, "full_columns without columns");
    return {};
  }
  const Interval columns = *observation.columns;
  if (observation.layout != Layout::kRowMajor || observation.shape.size() < 2 ||
      observation.shape.back() != columns.count || columns.count >= observation.full_columns ||
      columns.begin > observation.full_columns - columns.count || observation.full_columns > kMaxDimension) {
    return ShapeError(observation, "columns are not a proper part of the last axis");
  }
  return {};
}

}  // namespace

Result<uint64_t> ElementCount(std::span<const uint64_t> shape) {
  if (shape.empty() || shape.size() > kMaxRank) return Fail(ErrorCode::kGldShape, "1 to 4 axes are allowed");
  uint64_t count = 1;
  for (const uint64_t dimension : shape) {
    if (dimension == 0 || dimension > kMaxDimension)
      return Fail(ErrorCode::kGldShape, "an axis is 1 to 2^31 long");
    const auto product = CheckedMul(count, dimension);
    if (!product || *product > kMaxFileBytes)
      return Fail(ErrorCode::kGldShape, "more elements than a file can hold");
    count = *product;
  }
  return count;
}

Result<uint64_t> ByteCount(std::span<const uint64_t> shape, DType dtype, Layout layout) {
  SLM_ASSIGN(const uint64_t count, ElementCount(shape));
  if ((dtype == DType::kBits) != (layout == Layout::kPackedBits)) {
    return Fail(ErrorCode::kGldShape, "dtype bits and layout packed_bits go together");
  }
  if (layout != Layout::kRowMajor && shape.size() != 2)
    return Fail(ErrorCode::kGldShape, "a packed layout has 2 axes");
  switch (dtype) {
    case DType::kF32:
    case DType::kU32:
      return 4 * count;
    case DType::kF64:
      return 8 * count;
    case DType::kBf16:
      return 2 * count;
    case DType::kU8:
      return count;
    case DType::kBits:
      return shape[0] * ((shape[1] + 7) / 8);
  }
  return Fail(ErrorCode::kInternal, "no such dtype");
}

Status CheckObservation(const Observation& observation, std::optional<uint64_t> n_positions,
                        std::span<const Blob> blobs) {
  const std::string expected = observation.layer
                                   ? "layers." + std::to_string(*observation.layer) + "." + observation.role
                                   : observation.role;
  if (observation.role.empty() || observation.name != expected) {
    return SchemaError("the name does not follow from layer and role", observation.name);
  }
  if (observation.blob >= blobs.size()) {
    return Fail(MakeError(ErrorCode::kGldBlob, "no such blob").Field(observation.name));
  }
  auto n_bytes = ByteCount(observation.shape, observation.dtype, observation.layout);
  if (!n_bytes) return Fail(std::move(n_bytes).error().Field(observation.name));
  if (*n_bytes != blobs[static_cast<size_t>(observation.blob)].size) {
    return ShapeError(observation, "shape and blob differ in size");
  }
  SLM_ASSIGN(const Interval rows, KeptRows(observation, n_positions));
  if (observation.layout == Layout::kPackedCausal) {
    // Row t holds t + 1 values. Positions are at most 2^20: no overflow.
    const uint64_t first = rows.begin + 1;
    const uint64_t last = rows.begin + rows.count;
    if (!n_positions || observation.shape[1] != (first + last) * rows.count / 2) {
      return ShapeError(observation, "the packed axis does not hold t + 1 values for each row t");
    }
  } else if (observation.shape.front() != rows.count) {
    return ShapeError(observation, "the first axis is not the positions kept");
  }
  return CheckColumns(observation);
}

Status CheckContent(const Content& content, std::span<const Blob> blobs) {
  SLM_TRY(CheckIdentities(content));
  SLM_TRY(CheckLists(content));
  if (content.cases.size() > kMaxCases) return Fail(ErrorCode::kGldShape, "too many cases");
  for (const Observation& observation : content.model_observations) {
    SLM_TRY(CheckObservation(observation, std::nullopt, blobs));
  }
  std::set<std::string_view> ids;
  for (const Case& one : content.cases) {
    if (!ids.insert(one.case_id).second) return SchemaError("a case_id stands twice", one.case_id);
    SLM_TRY(CheckCase(one, blobs));
  }
  return CheckBlobUse(content, blobs);
}

}  // namespace slm::golden
