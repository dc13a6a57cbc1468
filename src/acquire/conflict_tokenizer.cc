// What tokenizer.json says twice, differently: the pinned library takes one of the two without a word, and a
// person would be misled. Each kind is a conflict (ACQ-12) that a statement settles in the library's favour;
// the other kinds of fault are the loader's to refuse.
#include <algorithm>
#include <optional>
#include <string>

#include "acquire/conflict.h"
#include "tokenizer/tokenizer.h"

namespace slm::acquire {
namespace {

using tokenizer::LoadOptions;
using tokenizer::Tokenizer;

constexpr std::string_view kFile = "tokenizer.json";

// The child of an array or object that starts at `offset`, or whose member `key` does.
std::optional<json::Value> ChildAt(std::optional<json::Value> list, uint64_t offset, std::string_view key) {
  if (!list || !(list->is_array() || list->is_object())) return std::nullopt;
  for (const json::Value child : list->children()) {
    if (child.byte_offset() == offset) return child;
    const auto member = key.empty() || !child.is_object() ? std::nullopt : child.Find(key);
    if (member && member->byte_offset() == offset) return child;
  }
  return std::nullopt;
}

std::optional<json::Value> Member(std::optional<json::Value> object, std::string_view key) {
  return object && object->is_object() ? object->Find(key) : std::nullopt;
}

std::optional<std::string_view> TextMember(std::optional<json::Value> object, std::string_view key) {
  const auto member = Member(object, key);
  return member && member->is_string() ? std::optional(member->string()) : std::nullopt;
}

// The first other child of the same list for which `is_same` holds.
template <typename IsSame>
std::optional<json::Value> Twin(json::Value list, json::Value one, const IsSame& is_same) {
  for (const json::Value child : list.children()) {
    if (child.byte_offset() != one.byte_offset() && is_same(child)) return child;
  }
  return std::nullopt;
}

// A merge in either of its two forms: "a b" and ["a","b"].
std::string MergeText(json::Value merge) {
  if (merge.is_string()) return std::string(merge.string());
  std::string text;
  if (!merge.is_array()) return text;
  for (const json::Value part : merge.children()) {
    if (part.is_string()) text += (text.empty() ? "" : " ") + std::string(part.string());
  }
  return text;
}

class Finder {
 public:
  Finder(json::Value root, uint64_t offset) : root_(root), offset_(offset) {}

  // What stands at the fault, and what the library takes in its place.
  Conflict ConflictOf(ErrorCode code, const std::string& message) const {
    Conflict conflict{code, "tokenizer", {}, message, true};
    switch (code) {
      case ErrorCode::kTokAddedId:
        AddedId(&conflict);
        break;
      case ErrorCode::kTokAddedDup:
        AddedTwice(&conflict);
        break;
      case ErrorCode::kTokMergeDup:
        MergeTwice(&conflict);
        break;
      case ErrorCode::kTokIdDup:
        IdTwice(&conflict);
        break;
      default:
        Gap(&conflict);
        break;
    }
    return conflict;
  }

 private:
  [[nodiscard]] std::optional<json::Value> Vocab() const { return Member(Member(root_, "model"), "vocab"); }

  void Push(Conflict* conflict, std::optional<json::Value> value, bool can_hold,
            std::string_view says = {}) const {
    Declaration declaration = Declare(kFile, value.value_or(root_));
    if (!says.empty()) declaration.value = says;
    declaration.can_hold = can_hold;
    conflict->declarations.push_back(std::move(declaration));
  }

  void AddedId(Conflict* conflict) const {
    const auto token = ChildAt(Member(root_, "added_tokens"), offset_, "id");
    const auto content = TextMember(token, "content");
    const auto known = content ? Member(Vocab(), *content) : std::nullopt;
    if (content) conflict->field = ShortenedText(*content);
    Push(conflict, Member(token, "id"), false);
    Push(conflict, known ? known : Vocab(), true, known ? "" : "nothing: the library gives the next free id");
  }

  void AddedTwice(Conflict* conflict) const {
    const auto list = Member(root_, "added_tokens");
    const auto token = ChildAt(list, offset_, "");
    const auto content = TextMember(token, "content");
    std::optional<json::Value> twin;
    if (content) {
      conflict->field = ShortenedText(*content);
      twin = Twin(*list, *token, [&](json::Value other) { return TextMember(other, "content") == content; });
    }
    Push(conflict, token, false);
    Push(conflict, twin ? twin : list, true, twin ? "" : "another token of the same normalized form");
  }

  void MergeTwice(Conflict* conflict) const {
    const auto list = Member(Member(root_, "model"), "merges");
    const auto merge = ChildAt(list, offset_, "");
    conflict->field = "merges";
    if (merge) {
      const std::string text = MergeText(*merge);
      Push(conflict, Twin(*list, *merge, [&](json::Value other) { return MergeText(other) == text; }), false);
    }
    Push(conflict, merge, true);
  }

  void IdTwice(Conflict* conflict) const {
    const auto second = ChildAt(Vocab(), offset_, "");
    if (second) {
      Push(conflict,
           Twin(*Vocab(), *second,
                [&](json::Value other) {
                  const bool is_piece =
                      second->is_array() && other.is_array() && other.size() != 0 && second->size() != 0;
                  return is_piece ? other.First()->source_text() == second->First()->source_text()
                                  : other.source_text() == second->source_text();
                }),
           false);
    }
    Push(conflict, second, true);
  }

  void Gap(Conflict* conflict) const {
    conflict->field = "vocab";
    Push(conflict, ChildAt(Vocab(), offset_, ""), false);
    Push(conflict, Vocab(), true, "no token has an id between");
  }

  json::Value root_;
  uint64_t offset_;
};

bool IsTaken(ErrorCode code) {
  return std::find(tokenizer::kContradictions.begin(), tokenizer::kContradictions.end(), code) !=
         tokenizer::kContradictions.end();
}

}  // namespace

void FindTokenizerConflicts(const SourceView& view, std::vector<Conflict>* conflicts) {
  if (!view.tokenizer || !view.tokenizer->is_object()) return;
  LoadOptions options;
  for (;;) {
    const auto loaded = Tokenizer::FromJson(std::string(view.tokenizer->source_text()), options);
    if (loaded) return;
    const ErrorCode code = loaded.error().code;
    if (!IsTaken(code) && code != ErrorCode::kTokIdDup) return;  // conversion refuses it by name
    const bool was_taken = options.Takes(code);
    const uint64_t offset = view.tokenizer->byte_offset() + loaded.error().byte_offset.value_or(0);
    Conflict conflict = Finder(*view.tokenizer, offset).ConflictOf(code, loaded.error().message);
    if (was_taken || code == ErrorCode::kTokIdDup) {
      conflict.acceptable = false;
      conflict.why_not = code == ErrorCode::kTokIdDup
                             ? "an id names one token"
                             : "which of the two is found in a text is left to chance";
    }
    const bool is_same =
        was_taken && !conflicts->empty() && conflicts->back().code == code &&
        conflicts->back().declarations.front().byte_offset == conflict.declarations.front().byte_offset;
    if (is_same) conflicts->pop_back();  // the library does not take this one
    conflicts->push_back(std::move(conflict));
    if (!conflicts->back().acceptable) return;
    options.accepted.push_back(code);
  }
}

}  // namespace slm::acquire
