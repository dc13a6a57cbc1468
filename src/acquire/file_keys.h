// The keys of the tokenizer's files against the profile's closed lists (CFG-02, TOK-07): each is read in a
// known form, without effect for a stated reason, or refused. Pure functions; any thread.
#ifndef SLM_ACQUIRE_FILE_KEYS_H_
#define SLM_ACQUIRE_FILE_KEYS_H_

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "acquire/acquisition.h"
#include "acquire/conflict.h"
#include "acquire/profile.h"
#include "base/error.h"

namespace slm::acquire {

// Forms of a consumed key's value.
inline constexpr std::string_view kFormToken = "special-token";    // null, a text, or an object with content
inline constexpr std::string_view kFormTokens = "special-tokens";  // null, a list or an object of such
inline constexpr std::string_view kFormAddedTokens = "added-tokens";  // an object: id to object with content
inline constexpr std::string_view kFormTokenId = "token-id";          // a non-negative integer
inline constexpr std::string_view kFormTemplate = "chat-template";    // null, a text, or a list of named ones
inline constexpr std::string_view kFormCleanUp = "clean-up";  // a boolean; true only under a BPE model

// A file that the lists are for, as the view holds it.
struct ListedFile {
  std::string_view path;
  const std::optional<json::Value>& root;  // an object
};

// The files among added_tokens.json, chat_template.json, preprocessor_config.json, processor_config.json,
// special_tokens_map.json and tokenizer_config.json that are there.
[[nodiscard]] std::vector<ListedFile> ListedFiles(const SourceView& view);

// `decided` are keys that a person called documentary ("tokenizer_config.json:key"); `ignored` receives what
// has no effect, in order of file and place; keys that a row with * names stand there once, under its name.
// Errors: CFG-UNCLASSIFIED and CFG-UNKNOWN-FIELD at a key that no row names, CFG-VALUE at a value that its
// row does not allow; with file, byte offset and field.
[[nodiscard]] Status CheckFileKeys(const SourceView& view, const KeyLists& lists,
                                   std::span<const DocumentaryKey> decided, std::vector<IgnoredKey>* ignored);

}  // namespace slm::acquire

#endif  // SLM_ACQUIRE_FILE_KEYS_H_
