// Chat templates: several files may hold one, and tokenizer_config.json may hold a list (ACQ-12).
#include <algorithm>

#include "acquire/conflict.h"
#include "base/utf8.h"

namespace slm::acquire {
namespace {

constexpr std::string_view kDefaultName = "default";

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
    const auto name = item.is_object() ? item.Find("name") : std::nullopt;
    const auto text = item.is_object() ? item.Find("template") : std::nullopt;
    if (!name || !name->is_string() || !text || !text->is_string()) continue;
    found->push_back({Declare(file, *text), std::string(name->string()), std::string(text->string())});
  }
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
  Conflict conflict{ErrorCode::kTplAmbiguous, "chat_template", {}, "", true, ""};
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
  for (const TemplateSource& source : found) {
    if (first == nullptr) {
      first = &source;
    } else if (WithoutLastNewline(source.text) == WithoutLastNewline(first->text)) {
      flags->push_back("chat template: " + EscapeForDisplay(source.where.Ref()) + " repeats " +
                       EscapeForDisplay(first->where.Ref()));
    } else {
      conflict.declarations.push_back(source.where);
    }
  }
  if (conflict.declarations.empty()) return;
  conflict.declarations.push_back(first->where);
  conflict.message =
      "the chat template stands in several places and differs: " + conflict.declarations[0].Ref() + " and " +
      first->where.Ref();
  conflicts->push_back(std::move(conflict));
}

}  // namespace slm::acquire
