// Chat templates: several files may hold one, and tokenizer_config.json may hold a list (ACQ-12). The model
// card speaks of them too, by a template or by examples (TPL-06).
#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_set>

#include "acquire/conflict.h"
#include "base/utf8.h"

namespace slm::acquire {
namespace {

constexpr std::string_view kDefaultName = "default";
// More than a person would compare, or any publisher writes.
constexpr size_t kMaxTemplates = 64;
const char* const kTooMany = "more than 64 chat templates or examples";
// A card speaks of a template and supplies none: its fences may be cut, indented or of another version.
constexpr std::string_view kNoSupplier =
    " (the model card supplies no template, so it is not among the choices)";

struct TemplateSource {
  Declaration where;
  std::string name;  // "default" or the name in a list
  std::string text;
};

// The engine drops one newline at the end of a template by itself, so a file that ends in one and a
// JSON string that does not are the same template.
std::string_view WithoutLastNewline(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

void CollectFromJson(std::string_view file, std::optional<json::Value> root,
                     std::vector<TemplateSource>* found) {
  if (!root || !root->is_object()) return;
  const auto value = root->Find("chat_template");
  if (!value) return;
  if (value->is_string()) {
    found->push_back({Declare(file, *value), std::string(kDefaultName), std::string(value->string())});
    return;
  }
  if (!value->is_array()) return;
  for (json::Value item : value->children()) {
    if (found->size() > kMaxTemplates) return;
    const auto name = item.is_object() ? item.Find("name") : std::nullopt;
    const auto text = item.is_object() ? item.Find("template") : std::nullopt;
    if (!name || !name->is_string() || !text || !text->is_string()) continue;
    found->push_back({Declare(file, *text), std::string(name->string()), std::string(text->string())});
  }
}

// Fenced blocks of a model card.
struct Fence {
  std::string_view language;
  std::string_view text;
  uint64_t byte_offset;
};

std::vector<Fence> FencesOf(std::string_view card) {
  std::vector<Fence> fences;
  std::optional<Fence> open;
  size_t text_begin = 0;
  std::string_view mark;
  for (size_t at = 0; at < card.size();) {
    const size_t end = std::min(card.find('\n', at), card.size());
    std::string_view line = card.substr(at, end - at);
    while (line.starts_with(' ')) line.remove_prefix(1);
    const size_t n = std::min(line.find_first_not_of(line.starts_with('~') ? '~' : '`'), line.size());
    if (open && n >= mark.size() && line[0] == mark[0] && line.find_first_not_of("`~ \r") == line.npos) {
      open->text = card.substr(text_begin, at - text_begin);
      fences.push_back(*open);
      open.reset();
    } else if (!open && n >= 3) {
      mark = line.substr(0, n);
      std::string_view language = line.substr(n);
      while (language.ends_with('\r') || language.ends_with(' ')) language.remove_suffix(1);
      while (language.starts_with(' ')) language.remove_prefix(1);
      text_begin = std::min(end + 1, card.size());
      open = Fence{language, "", text_begin};
    }
    at = end + 1;
  }
  return fences;
}

bool IsTemplate(const Fence& fence) {
  return fence.text.find("{%") != std::string_view::npos &&
         fence.text.find("messages") != std::string_view::npos &&
         (fence.language.starts_with("jinja") || fence.language == "django" || fence.language.empty());
}

// Markers of roles and turns in a prompt or template: <|im_start|>, [INST], <start_of_turn>. In order of
// their place, those in angles first; views into `text`.
std::vector<std::string_view> MarkersIn(std::string_view text) {
  std::vector<std::string_view> markers;
  for (size_t at = text.find("<|"); at != std::string_view::npos; at = text.find("<|", at + 2)) {
    const size_t end = text.find("|>", at + 2);
    if (end == std::string_view::npos || end - at > 64) continue;
    const std::string_view marker = text.substr(at, end + 2 - at);
    if (marker.find_first_of(" \n\t{}") == std::string_view::npos) markers.push_back(marker);
  }
  for (const std::string_view marker : {"[INST]", "[/INST]", "<<SYS>>", "<start_of_turn>", "<end_of_turn>"}) {
    const size_t at = text.find(marker);
    if (at != std::string_view::npos) markers.push_back(text.substr(at, marker.size()));
  }
  return markers;
}

// A prompt that the card shows, not a program that makes one.
bool IsExample(const Fence& fence) {
  static constexpr std::string_view kPlain[] = {"", "text", "txt", "plaintext", "prompt", "none"};
  return std::find(std::begin(kPlain), std::end(kPlain), fence.language) != std::end(kPlain) &&
         !IsTemplate(fence);
}

// Where two templates part, for a person.
std::string Difference(std::string_view first, std::string_view second) {
  const auto a = std::mismatch(first.begin(), first.end(), second.begin(), second.end()).first;
  const size_t at = static_cast<size_t>(a - first.begin());
  const auto line = 1 + std::count(first.begin(), a, '\n');
  const auto around = [at](std::string_view text) {
    size_t begin = at < 12 ? 0 : at - 12;
    size_t end = std::min(text.size(), at + 24);
    while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0U) == 0x80U) --begin;
    while (end < text.size() && (static_cast<uint8_t>(text[end]) & 0xC0U) == 0x80U) ++end;
    return "|" + std::string(text.substr(begin, end - begin)) + "|";
  };
  return "; they part at byte " + std::to_string(at) + " (line " + std::to_string(line) +
         "): " + around(first) + " and " + around(second);
}

// The card's examples against the template that counts: a marker that it never writes.
void FindExampleConflicts(const SourceView& view, const TemplateSource& chosen,
                          std::vector<Conflict>* conflicts) {
  if (view.model_card == nullptr) return;
  std::string known = chosen.text;
  for (const auto& config : {view.tokenizer_config, view.special_tokens_map}) {
    if (!config) continue;
    // Special tokens reach the text by the names of variables.
    for (const char* name : {"bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token"}) {
      auto token = config->Find(name);
      if (token && token->is_object()) token = token->Find("content");
      if (token && token->is_string()) known += "\n" + std::string(token->string());
    }
  }
  const std::vector<std::string_view> written = MarkersIn(known);
  const std::unordered_set<std::string_view> known_markers(written.begin(), written.end());
  Conflict conflict{ErrorCode::kTplAmbiguous, "chat_template", {}, "", true, kTooMany};
  for (const Fence& fence : FencesOf(view.model_card->text)) {
    if (!IsExample(fence)) continue;
    const std::vector<std::string_view> markers = MarkersIn(fence.text);
    const auto foreign = std::find_if(markers.begin(), markers.end(), [&](std::string_view marker) {
      return known_markers.count(marker) == 0;
    });
    if (foreign == markers.end()) continue;
    if (conflict.declarations.size() == kMaxTemplates) {
      conflict.acceptable = false;
      break;
    }
    if (conflict.declarations.empty()) {
      conflict.message = "an example of the model card holds " + ShortenedText(*foreign) +
                         ", which the chat template never writes" + std::string(kNoSupplier);
    }
    conflict.declarations.push_back(
        {view.model_card->path, "",
         fence.byte_offset + static_cast<uint64_t>(foreign->data() - fence.text.data()),
         ShortenedText(fence.text), false});
  }
  if (conflict.declarations.empty()) return;
  conflict.declarations.push_back(chosen.where);
  conflicts->push_back(std::move(conflict));
}

std::vector<TemplateSource> Collect(const SourceView& view) {
  std::vector<TemplateSource> found;
  CollectFromJson("tokenizer_config.json", view.tokenizer_config, &found);
  for (const StreamedFile* file : view.templates) {
    std::string name(kDefaultName);
    if (file->kind == "named-template") {
      const size_t slash = file->path.rfind('/');
      name = file->path.substr(slash + 1, file->path.size() - slash - 1 - std::string_view(".jinja").size());
    }
    found.push_back({{file->path, "", 0, ShortenedText(file->text)}, name, file->text});
  }
  CollectFromJson("chat_template.json", view.chat_template_json, &found);
  CollectFromJson("processor_config.json", view.processor_config, &found);
  CollectFromJson("preprocessor_config.json", view.preprocessor_config, &found);
  // A card that shows a template says what the model was trained with; it never supplies one.
  if (view.model_card != nullptr && !found.empty()) {
    for (const Fence& fence : FencesOf(view.model_card->text)) {
      if (!IsTemplate(fence)) continue;
      if (found.size() > kMaxTemplates) break;
      found.push_back({{view.model_card->path, "", fence.byte_offset, ShortenedText(fence.text), false},
                       std::string(kDefaultName),
                       std::string(fence.text)});
    }
  }
  return found;
}

}  // namespace

void FindTemplateConflicts(const SourceView& view, std::vector<Conflict>* conflicts,
                           std::vector<std::string>* flags) {
  const std::vector<TemplateSource> found = Collect(view);
  std::vector<std::string> names;
  for (const TemplateSource& source : found) {
    if (std::find(names.begin(), names.end(), source.name) == names.end()) names.push_back(source.name);
  }
  const bool only_default = names.empty() || (names.size() == 1 && names[0] == kDefaultName);
  const bool are_few = found.size() <= kMaxTemplates;
  Conflict conflict{ErrorCode::kTplAmbiguous, "chat_template", {}, "", are_few, are_few ? "" : kTooMany};
  if (!only_default) {
    // The pinned source picks one by name at each call; an artifact carries one template.
    for (const TemplateSource& source : found) conflict.declarations.push_back(source.where);
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    conflict.message = names.size() == 1
                           ? "the only chat template is not called default, but " + list
                           : "there are several chat templates (" + list + "), and an artifact carries one";
    conflicts->push_back(std::move(conflict));
    return;
  }
  const TemplateSource* first = nullptr;
  const TemplateSource* other = nullptr;
  for (const TemplateSource& source : found) {
    if (first == nullptr) {
      first = &source;
    } else if (WithoutLastNewline(source.text) == WithoutLastNewline(first->text)) {
      flags->push_back("chat template: " + EscapeForDisplay(source.where.Ref()) + " repeats " +
                       EscapeForDisplay(first->where.Ref()));
    } else {
      if (other == nullptr) other = &source;
      conflict.declarations.push_back(source.where);
    }
  }
  if (first == nullptr) return;
  if (conflict.declarations.empty()) return FindExampleConflicts(view, *first, conflicts);
  conflict.declarations.push_back(first->where);
  conflict.message =
      "the chat template stands in several places and differs: " + conflict.declarations[0].Ref() + " and " +
      first->where.Ref() + Difference(other->text, first->text);
  const bool names_card = std::any_of(conflict.declarations.begin(), conflict.declarations.end(),
                                      [](const Declaration& one) { return !one.can_hold; });
  if (names_card) conflict.message += kNoSupplier;
  conflicts->push_back(std::move(conflict));
  FindExampleConflicts(view, *first,
                       conflicts);  // last: an example only hints at what the templates say themselves
}

}  // namespace slm::acquire
