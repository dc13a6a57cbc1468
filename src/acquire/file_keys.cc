#include "acquire/file_keys.h"

#include <algorithm>
#include <iterator>
#include <optional>

namespace slm::acquire {
namespace {

// Members of a token that stands as an object.
constexpr std::string_view kTokenFlags[] = {"lstrip", "normalized", "rstrip", "single_word", "special"};

class FileChecker {
 public:
  FileChecker(const SourceView& view, const KeyLists& lists, std::span<const DocumentaryKey> decided,
              std::vector<IgnoredKey>* ignored)
      : view_(view), lists_(lists), decided_(decided), ignored_(ignored) {}

  Status Check(const ListedFile& file) {
    file_ = file.path;
    for (json::Value member : file.root->children()) {
      const KeyRule* rule = lists_.Find(file_, member.key());
      if (rule == nullptr) {
        SLM_TRY(Unlisted(member));
      } else if (rule->key_class == KeyRule::Class::kConsumed) {
        SLM_TRY(CheckForm(member, rule->field));
      } else if (rule->values && !IsOneOf(member, *rule->values)) {
        return Bad(member, "the value " + ShortenedText(member.source_text().substr(0, 80)) +
                               " is not supported (" + rule->reason + ")");
      } else if (rule->key.starts_with('*')) {
        if (ignored_->empty() || ignored_->back().file != file_ || ignored_->back().key != rule->key)
          ignored_->push_back({std::string(file_), rule->key, "", rule->reason});
      } else {
        Ignore(member, rule->reason);
      }
    }
    return {};
  }

 private:
  void Ignore(json::Value member, std::string reason) {
    ignored_->push_back({std::string(file_), ShortenedText(member.key()), ShortenedText(member.source_text()),
                         std::move(reason)});
  }

  Status Unlisted(json::Value member) {
    const std::string key = ShortenedText(member.key());
    const auto refuse = [&](ErrorCode code, std::string message) -> Status {
      return Fail(
          MakeError(code, key + ": " + std::move(message)).At(member.key_byte_offset()).In(file_).Field(key));
    };
    if (LooksBehavioural(member.key(), lists_.behaviour_words)) {
      return refuse(ErrorCode::kCfgUnknownField,
                    "the profile does not list this key, and its name says that it changes the tokenizer");
    }
    const std::string name = std::string(file_) + ":" + std::string(member.key());
    const auto decision = std::find_if(decided_.begin(), decided_.end(),
                                       [&](const DocumentaryKey& d) { return d.key == name; });
    if (decision == decided_.end()) {
      return refuse(ErrorCode::kCfgUnclassified,
                    "the profile does not list this key; a person's decision must say that it has no effect "
                    "(--decision)");
    }
    Ignore(member, "called documentary by a person's decision: " + decision->decision);
    return {};
  }

  std::unexpected<Error> Bad(json::Value at, std::string message) const {
    std::string path = ShortenedText(at.Path());
    if (path.starts_with("$.")) path.erase(0, 2);
    return Fail(MakeError(ErrorCode::kCfgValue, path + ": " + std::move(message))
                    .At(at.byte_offset())
                    .In(file_)
                    .Field(path));
  }

  Status CheckForm(json::Value value, std::string_view form) const {
    if (form == kFormToken) return value.is_null() ? Status{} : CheckToken(value);
    if (form == kFormTokens) return CheckTokens(value);
    if (form == kFormAddedTokens) return CheckAddedTokens(value);
    if (form == kFormTemplate) return CheckTemplate(value);
    if (form == kFormCleanUp) return CheckCleanUp(value);
    if (value.AsUint()) return {};
    return Bad(value, "the id of a token is a non-negative integer");
  }

  Status CheckToken(json::Value value) const {
    if (value.is_string()) return {};
    if (!value.is_object()) return Bad(value, "a token is a text or an object with the text content");
    return CheckTokenObject(value);
  }

  Status CheckTokenObject(json::Value token) const {
    const auto content = token.Find("content");
    if (!content || !content->is_string()) return Bad(token, "a token needs the text content");
    for (json::Value member : token.children()) {
      const std::string_view key = member.key();
      if (key == "content") continue;
      if (key == "__type") {
        if (member.is_string() && member.string() == "AddedToken") continue;
        return Bad(member, "the type of a token is AddedToken");
      }
      if (std::find(std::begin(kTokenFlags), std::end(kTokenFlags), key) == std::end(kTokenFlags))
        return Bad(member, "a token has no such member");
      if (!member.is_bool()) return Bad(member, "a flag of a token is true or false");
    }
    return {};
  }

  Status CheckTokens(json::Value value) const {
    if (value.is_null()) return {};
    if (!value.is_array() && !value.is_object())
      return Bad(value, "special tokens are a list, or an object that names them");
    for (json::Value token : value.children()) SLM_TRY(CheckToken(token));
    return {};
  }

  Status CheckAddedTokens(json::Value value) const {
    if (!value.is_object()) return Bad(value, "an object is expected, of ids and tokens");
    for (json::Value token : value.children()) {
      const std::string_view id = token.key();
      const bool is_decimal = !id.empty() && id.find_first_not_of("0123456789") == std::string_view::npos &&
                              (id == "0" || id[0] != '0');
      if (!is_decimal) return Bad(token, "the key of an added token is its id, a decimal number");
      if (!token.is_object()) return Bad(token, "an added token is an object with the text content");
      SLM_TRY(CheckTokenObject(token));
    }
    return {};
  }

  Status CheckTemplate(json::Value value) const {
    if (value.is_null() || value.is_string()) return {};
    if (!value.is_array()) return Bad(value, "a chat template is a text or a list of named texts");
    for (json::Value item : value.children()) {
      const auto name = item.is_object() ? item.Find("name") : std::nullopt;
      const auto text = item.is_object() ? item.Find("template") : std::nullopt;
      if (!name || !name->is_string() || !text || !text->is_string() || item.size() != 2)
        return Bad(item, "a named template has the texts name and template, and nothing else");
    }
    return {};
  }

  // The pinned source leaves decoded text alone where the model is a BPE, and takes blanks out elsewhere.
  Status CheckCleanUp(json::Value value) const {
    if (value.is_null()) return {};
    if (!value.is_bool()) return Bad(value, "true or false is expected");
    if (!value.boolean() || ModelType() == "BPE") return {};
    return Bad(value, "blanks of decoded text would be removed, which is done for no other model than BPE's");
  }

  // "" where tokenizer.json does not say, which old files do not.
  std::string_view ModelType() const {
    const auto model = view_.tokenizer ? view_.tokenizer->Find("model") : std::nullopt;
    if (!model || !model->is_object()) return "";
    const auto type = model->Find("type");
    if (type && type->is_string()) return type->string();
    return model->Find("merges") ? "BPE" : "";
  }

  const SourceView& view_;
  const KeyLists& lists_;
  std::span<const DocumentaryKey> decided_;
  std::vector<IgnoredKey>* ignored_;
  std::string_view file_;
};

}  // namespace

std::vector<ListedFile> ListedFiles(const SourceView& view) {
  std::vector<ListedFile> files;
  const auto add = [&files](std::string_view path, const std::optional<json::Value>& root) {
    if (root && root->is_object()) files.push_back({path, root});
  };
  add("added_tokens.json", view.added_tokens);
  add("chat_template.json", view.chat_template_json);
  add("preprocessor_config.json", view.preprocessor_config);
  add("processor_config.json", view.processor_config);
  add("special_tokens_map.json", view.special_tokens_map);
  add("tokenizer_config.json", view.tokenizer_config);
  return files;
}

Status CheckFileKeys(const SourceView& view, const KeyLists& lists, std::span<const DocumentaryKey> decided,
                     std::vector<IgnoredKey>* ignored) {
  FileChecker checker(view, lists, decided, ignored);
  for (const ListedFile& file : ListedFiles(view)) SLM_TRY(checker.Check(file));
  return {};
}

}  // namespace slm::acquire
