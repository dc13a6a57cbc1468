#include "safetensors/shard_index.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "codec/json.h"

namespace slm::safetensors {
namespace {

constexpr std::string_view kSuffix = ".safetensors";

std::unexpected<Error> Refuse(ErrorCode code, uint64_t at, std::string_view field, std::string message) {
  return Fail(MakeError(code, std::move(message)).At(at).Field(field));
}

// A bare file name: letters, digits, dot, dash, underscore; no folder, no leading dot.
bool IsPlainShardName(std::string_view name) {
  if (name.empty() || name.size() > 255 || name.front() == '.' || !name.ends_with(kSuffix)) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

std::optional<uint64_t> FiveDigits(std::string_view text) {
  if (text.size() != 5) return std::nullopt;
  uint64_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

std::string FiveDigitText(uint64_t value) {
  const std::string digits = std::to_string(value);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

Status ReadWeightMap(json::Value map, const Limits& limits, ShardIndex* index) {
  if (!map.is_object()) {
    return Refuse(ErrorCode::kIxSchema, map.byte_offset(), "weight_map", "weight_map must be an object");
  }
  for (json::Value entry : map.children()) {
    if (!entry.is_string()) {
      return Refuse(ErrorCode::kIxSchema, entry.byte_offset(), entry.key(),
                    "a shard must be named by a string");
    }
    if (!IsPlainShardName(entry.string())) {
      return Refuse(ErrorCode::kIxPath, entry.byte_offset(), entry.key(),
                    "shard " + std::string(entry.string()) +
                        " is not a plain file name beside the index that ends in .safetensors");
    }
    if (index->entries.size() == limits.max_tensors) {
      return Refuse(ErrorCode::kIxSchema, entry.key_byte_offset(), entry.key(),
                    "more than " + std::to_string(limits.max_tensors) + " tensors");
    }
    index->entries.push_back({std::string(entry.key()), std::string(entry.string()), entry.key_byte_offset(),
                              entry.byte_offset()});
  }
  if (index->entries.empty()) {
    return Refuse(ErrorCode::kIxSchema, map.byte_offset(), "weight_map", "weight_map is empty");
  }
  return {};
}

// Other members of `metadata` are documentary (total_parameters and the like).
Status ReadIndexMetadata(json::Value metadata, ShardIndex* index) {
  if (!metadata.is_object()) {
    return Refuse(ErrorCode::kIxSchema, metadata.byte_offset(), "metadata", "metadata must be an object");
  }
  const auto total = metadata.Find("total_size");
  if (!total) return {};
  index->total_size = total->AsUint();
  index->total_size_offset = total->byte_offset();
  if (!index->total_size) {
    return Refuse(ErrorCode::kIxSchema, total->byte_offset(), "metadata.total_size",
                  "total_size must be a plain non-negative integer");
  }
  return {};
}

}  // namespace

std::vector<std::string> ShardIndex::Shards() const {
  std::set<std::string> names;
  for (const IndexEntry& entry : entries) names.insert(entry.shard);
  return {names.begin(), names.end()};
}

std::optional<ShardNumber> ParseShardName(std::string_view file_name) {
  constexpr std::string_view kOf = "-of-";
  constexpr size_t kTail = 1 + 5 + kOf.size() + 5;  // "-00001-of-00003"
  if (!file_name.ends_with(kSuffix)) return std::nullopt;
  const std::string_view stem = file_name.substr(0, file_name.size() - kSuffix.size());
  if (stem.size() <= kTail) return std::nullopt;
  const std::string_view tail = stem.substr(stem.size() - kTail);
  const auto number = FiveDigits(tail.substr(1, 5));
  const auto count = FiveDigits(tail.substr(kTail - 5));
  if (tail[0] != '-' || tail.substr(6, kOf.size()) != kOf || !number || !count) return std::nullopt;
  return ShardNumber{std::string(stem.substr(0, stem.size() - kTail)), *number, *count};
}

Result<ShardIndex> ParseShardIndex(std::string text, const Limits& limits) {
  json::Limits json_limits;
  json_limits.max_bytes = limits.max_header_bytes;
  json_limits.max_depth = 16;
  auto document = json::Parse(std::move(text), json_limits);
  if (!document) {
    Error error = std::move(document).error();
    if (error.code == ErrorCode::kJsonDupKey) error.code = ErrorCode::kIxDupKey;
    return Fail(std::move(error));
  }
  const json::Value root = document->root();
  if (!root.is_object())
    return Refuse(ErrorCode::kIxSchema, root.byte_offset(), "", "the index must be an object");
  for (json::Value member : root.children()) {
    if (member.key() != "metadata" && member.key() != "weight_map") {
      return Refuse(ErrorCode::kIxSchema, member.key_byte_offset(), member.key(),
                    "an index holds metadata and weight_map only");
    }
  }
  const auto map = root.Find("weight_map");
  if (!map) return Refuse(ErrorCode::kIxSchema, root.byte_offset(), "weight_map", "weight_map is absent");
  ShardIndex index;
  SLM_TRY(ReadWeightMap(*map, limits, &index));
  if (const auto metadata = root.Find("metadata")) SLM_TRY(ReadIndexMetadata(*metadata, &index));
  return index;
}

Status CheckShardNumbers(std::span<const std::string> shards) {
  std::optional<ShardNumber> first;
  std::set<uint64_t> numbers;
  for (const std::string& shard : shards) {
    const auto number = ParseShardName(shard);
    if (!number) continue;
    if (!first) first = number;
    if (number->prefix != first->prefix || number->count != first->count || number->number == 0 ||
        number->number > number->count) {
      return Fail(MakeError(ErrorCode::kIxIncomplete,
                            "shard " + std::string(shard) + " does not belong to the series of the others")
                      .Field(shard));
    }
    numbers.insert(number->number);
  }
  if (!first) return {};
  uint64_t expected = 1;
  for (uint64_t number : numbers) {
    if (number != expected) break;
    ++expected;
  }
  if (expected > first->count) return {};
  const std::string missing = first->prefix + "-" + FiveDigitText(expected) + "-of-" +
                              FiveDigitText(first->count) + std::string(kSuffix);
  return Fail(MakeError(ErrorCode::kIxIncomplete,
                        "the series of shards is not complete: " + std::string(missing) + " is named nowhere")
                  .Field(missing));
}

Status CheckShards(const ShardIndex& index, std::span<const ShardHeader> shards,
                   std::vector<std::string>* flags) {
  std::map<std::string_view, const Header*> in_tree;
  for (const ShardHeader& shard : shards) in_tree.emplace(shard.file_name, shard.header);
  for (const IndexEntry& entry : index.entries) {
    if (in_tree.contains(entry.shard)) continue;
    return Refuse(ErrorCode::kIxMissing, entry.value_offset, entry.tensor,
                  "shard " + std::string(entry.shard) + " is not in the tree; fetch it");
  }
  SLM_TRY(CheckShardNumbers(index.Shards()));

  std::unordered_map<std::string_view, const IndexEntry*> mapped;
  for (const IndexEntry& entry : index.entries) mapped.emplace(entry.tensor, &entry);
  std::unordered_map<std::string_view, std::string_view> holder;
  uint64_t total_bytes = 0;
  for (const auto& [shard, header] : in_tree) {
    for (const TensorInfo& tensor : header->tensors) {
      const auto [other, is_new] = holder.emplace(tensor.name, shard);
      if (!is_new) {
        return Fail(MakeError(ErrorCode::kIxDup, "the tensor stands in " + std::string(other->second) +
                                                     " and in " + std::string(shard))
                        .At(tensor.header_offset)
                        .In(shard)
                        .Field(tensor.name));
      }
      if (!mapped.contains(tensor.name)) {
        return Fail(
            MakeError(ErrorCode::kIxUnmapped, "the index does not map this tensor of " + std::string(shard))
                .At(tensor.header_offset)
                .In(shard)
                .Field(tensor.name));
      }
      total_bytes += tensor.end - tensor.begin;  // bounded by the sizes of files that exist
    }
  }
  for (const IndexEntry& entry : index.entries) {
    const auto found = holder.find(entry.tensor);
    if (found != holder.end() && found->second == entry.shard) continue;
    const std::string where =
        found == holder.end() ? "no shard holds it" : std::string(found->second) + " holds it";
    return Refuse(ErrorCode::kIxAbsent, entry.key_offset, entry.tensor,
                  "the index maps the tensor to " + entry.shard + ", but " + where);
  }
  if (index.total_size && *index.total_size != total_bytes) {
    flags->push_back("IX-TOTAL: total_size says " + std::to_string(*index.total_size) +
                     ", the tensors have " + std::to_string(total_bytes) + " bytes");
  }
  return {};
}

}  // namespace slm::safetensors
