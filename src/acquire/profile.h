// The acquisition profile: which files a source may have, what each is, and the limits (ACQ-02,
// ACQ-03; schema slm.acquire-profile.v1 in docs/spec/acquisition.md). Data, hashed into every
// acquisition made under it.
#ifndef SLM_ACQUIRE_PROFILE_H_
#define SLM_ACQUIRE_PROFILE_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "model/family_profile.h"
#include "safetensors/header.h"

namespace slm::acquire {

inline constexpr uint64_t kMaxProfileBytes = uint64_t{4} << 20;  // of a profile's text

struct TreeLimits {
  uint64_t max_files = 0;
  uint64_t max_file_bytes = 0;
  uint64_t max_total_bytes = 0;
  uint64_t max_depth = 0;  // components of a path
  uint64_t max_path_bytes = 0;
  uint64_t max_text_bytes = 0;  // of a file that is parsed: JSON, card, license, template
};

struct PathRule {
  std::string pattern;
  std::string value;           // the reason, or for allow rules the kind
  bool is_everywhere = false;  // forbid rules: in ignored folders too
};

// The closed lists of keys of the tokenizer's files (CFG-02). A consumed key's `field` is the form that its
// value has: "special-token", "special-tokens", "added-tokens", "token-id", "chat-template", "clean-up".
struct KeyLists {
  std::string pinned_source;  // "transformers 5.24.0"
  std::string reviewer;
  std::vector<std::string> behaviour_words;         // as in a family profile
  std::map<std::string, KeyRules, std::less<>> of;  // by path of the file

  // The row of the key, or the first one in order of text whose key is `*` and the name's end; null if none.
  [[nodiscard]] const KeyRule* Find(std::string_view file, std::string_view key) const;
};

struct Profile {
  std::string name;
  TreeLimits limits;
  safetensors::Limits safetensors;
  std::vector<std::string> required;
  std::vector<std::pair<std::string, std::string>> architectures;  // class, model_type
  std::vector<std::string> embedding_tensors;
  std::vector<std::string> output_tensors;
  std::vector<PathRule> ignore;  // whole folders; patterns end in /
  std::vector<PathRule> forbid;
  std::vector<PathRule> allow;
  KeyLists keys;
  Bytes text;
  Hash256 hash{};

  // The reason for not entering the folder `path` (no trailing slash), or null.
  [[nodiscard]] const PathRule* IgnoreRule(std::string_view path) const;
  // Of a name in an ignored folder: ACQ-FORBIDDEN where a rule forbids it everywhere.
  [[nodiscard]] Status CheckIgnored(std::string_view path) const;
  // Kind of a file, or ACQ-FORBIDDEN with the path and the reason.
  [[nodiscard]] Result<std::string> KindOf(std::string_view path) const;
  [[nodiscard]] const std::string* ModelType(std::string_view architecture) const;
};

// `*` stands for one or more ASCII letters, digits, dots, dashes, underscores, pluses and blanks,
// never for a slash or a leading dot of a name.
[[nodiscard]] bool MatchesPattern(std::string_view pattern, std::string_view path);

// Errors: the JSON and SCHEMA codes, with `display_path` as the file.
[[nodiscard]] Result<Profile> ParseProfile(ByteSpan text, const std::string& display_path);

// The file, or the built-in hf-directory-v2 where `path` is empty.
[[nodiscard]] Result<Profile> LoadProfile(const std::string& path);

}  // namespace slm::acquire

#endif  // SLM_ACQUIRE_PROFILE_H_
