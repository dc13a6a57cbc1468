// The tape of a parsed JSON text: one entry for each value and each key, in file order.
// Internal to codec/json*.cc.
#ifndef SLM_CODEC_JSON_IMPL_H_
#define SLM_CODEC_JSON_IMPL_H_

#include <string>
#include <string_view>
#include <vector>

#include "codec/json.h"

namespace slm::json {

// A member's key stands right before its value, so values of arrays carry no key.
struct Entry {
  uint32_t begin;  // first byte in the text (of a string: its quote)
  uint32_t end;    // one past the last byte
  uint32_t a;      // container: index past its subtree; string with escapes: place in `unescaped`
  uint32_t b;      // container: number of children; string with escapes: length there
  Kind kind;
  bool is_member;    // the value of an object's member
  bool is_last;      // no sibling follows
  bool has_escapes;  // string only
};

struct Tape {
  std::string text;
  std::vector<Entry> entries;
  std::string unescaped;  // contents of all strings with escapes, one after the other

  [[nodiscard]] std::string_view StringAt(uint32_t index) const {
    const Entry& entry = entries[index];
    if (entry.has_escapes) return std::string_view(unescaped).substr(entry.a, entry.b);
    return std::string_view(text).substr(entry.begin + 1, entry.end - entry.begin - 2);
  }
  // Index past the subtree of the value at `index`.
  [[nodiscard]] uint32_t SubtreeEnd(uint32_t index) const {
    const Entry& entry = entries[index];
    return entry.kind == Kind::kArray || entry.kind == Kind::kObject ? entry.a : index + 1;
  }
};

struct Document::Impl : Tape {};

}  // namespace slm::json

#endif  // SLM_CODEC_JSON_IMPL_H_
