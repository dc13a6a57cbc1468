// model.safetensors.index.json: which shard holds which tensor (ACQ-06; rules IX-* in
// docs/spec/acquisition.md). Pure functions on bytes; any thread.
#ifndef SLM_SAFETENSORS_SHARD_INDEX_H_
#define SLM_SAFETENSORS_SHARD_INDEX_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "safetensors/header.h"

namespace slm::safetensors {

struct IndexEntry {
  std::string tensor;
  std::string shard;
  uint64_t key_offset = 0;    // of the tensor's name in the index file
  uint64_t value_offset = 0;  // of the shard's name
};

struct ShardIndex {
  std::vector<IndexEntry> entries;  // in the order of the file
  std::optional<uint64_t> total_size;
  uint64_t total_size_offset = 0;

  // Distinct shard names, sorted.
  [[nodiscard]] std::vector<std::string> Shards() const;
};

// A shard's number, from names such as model-00002-of-00003.safetensors.
struct ShardNumber {
  std::string prefix;  // "model"
  uint64_t number = 0;
  uint64_t count = 0;
};
[[nodiscard]] std::optional<ShardNumber> ParseShardName(std::string_view file_name);

// Errors: IX-DUPKEY, IX-SCHEMA, IX-PATH, or the JSON codes; byte offsets in the index file.
[[nodiscard]] Result<ShardIndex> ParseShardIndex(std::string text, const Limits& limits = {});

// The numbers of `shards` are 1 to n without a gap, for one prefix and one n, wherever a name
// carries a number. Error: IX-INCOMPLETE with the first missing name in `field`.
[[nodiscard]] Status CheckShardNumbers(std::span<const std::string> shards);

struct ShardHeader {
  std::string file_name;
  const Header* header;
};

// The index against the shards that are in the tree (every *.safetensors beside the index).
// Errors: IX-MISSING, IX-INCOMPLETE, IX-DUP, IX-UNMAPPED, IX-ABSENT. A wrong total_size is
// accepted and recorded in `flags` (IX-TOTAL). The error's `file` is the shard where the offset
// lies in one, and empty where it lies in the index.
[[nodiscard]] Status CheckShards(const ShardIndex& index, std::span<const ShardHeader> shards,
                                 std::vector<std::string>* flags);

}  // namespace slm::safetensors

#endif  // SLM_SAFETENSORS_SHARD_INDEX_H_
