// BOS, EOS, PAD, UNK and added tokens: one truth in up to six files.
//
// The pinned source stops at the set of generation_config.json where it names one, else at that of
// config.json. An EOS of another file inside that set agrees and is recorded; outside it is a
// conflict (ACQ-12). The other roles must have one id everywhere.
#include <algorithm>
#include <array>
#include <string>

#include "acquire/conflict.h"
#include "base/utf8.h"

namespace slm::acquire {
namespace {

struct Role {
  std::string_view name;  // "eos"
  ErrorCode code;
};
constexpr std::array<Role, 4> kRoles = {{{"eos", ErrorCode::kCfgConflictEos},
                                         {"bos", ErrorCode::kCfgConflictBos},
                                         {"pad", ErrorCode::kCfgConflictPad},
                                         {"unk", ErrorCode::kCfgConflictUnk}}};

// What one file says about one role.
struct RoleDeclaration {
  Declaration where;
  std::vector<uint64_t> ids;
  bool resolves = true;  // false: a token that tokenizer.json does not have
};

std::string IdsText(const std::vector<uint64_t>& ids) {
  std::string text;
  for (uint64_t id : ids) text += (text.empty() ? "" : ", ") + std::to_string(id);
  return ids.size() == 1 ? text : "[" + text + "]";
}

std::string Describe(const RoleDeclaration& declaration) {
  return EscapeForDisplay(declaration.where.Ref()) + " says " + EscapeForDisplay(declaration.where.value) +
         " (id " + IdsText(declaration.ids) + ")";
}

std::optional<uint64_t> ResolveToken(const SourceView& view, std::string_view content) {
  if (!view.tokenizer || !view.tokenizer->is_object()) return std::nullopt;
  const auto added = view.tokenizer->Find("added_tokens");
  if (added && added->is_array()) {
    for (json::Value token : added->children()) {
      if (!token.is_object()) continue;
      const auto text = token.Find("content");
      const auto id = token.Find("id");
      if (text && text->is_string() && text->string() == content && id) return id->AsUint();
    }
  }
  const auto model = view.tokenizer->Find("model");
  const auto vocab = model && model->is_object() ? model->Find("vocab") : std::nullopt;
  if (!vocab) return std::nullopt;
  if (vocab->is_object()) {
    const auto id = vocab->Find(content);
    return id ? id->AsUint() : std::nullopt;
  }
  if (!vocab->is_array()) return std::nullopt;
  uint64_t index = 0;
  for (json::Value piece : vocab->children()) {
    if (piece.is_array() && piece.size() != 0 && piece.First()->is_string() &&
        piece.First()->string() == content) {
      return index;
    }
    ++index;
  }
  return std::nullopt;
}

// Collects the declarations of one role.
class RoleCollector {
 public:
  RoleCollector(const SourceView& view, const Role& role, std::vector<Conflict>* conflicts)
      : view_(view), role_(role), conflicts_(conflicts) {}

  std::vector<RoleDeclaration> Collect() {
    const std::string id_key = std::string(role_.name) + "_token_id";
    const std::string token_key = std::string(role_.name) + "_token";
    AddIds("generation_config.json", view_.generation_config, id_key);
    AddIds("config.json", view_.config, id_key);
    AddToken("tokenizer_config.json", view_.tokenizer_config, token_key);
    AddToken("special_tokens_map.json", view_.special_tokens_map, token_key);
    if (role_.name == "unk") AddModelUnknown();
    return std::move(found_);
  }

 private:
  void AddIds(std::string_view file, std::optional<json::Value> root, const std::string& key) {
    if (!root || !root->is_object()) return;
    const auto value = root->Find(key);
    if (!value || value->is_null()) return;
    RoleDeclaration declaration{Declare(file, *value), {}, true};
    const auto add = [&](json::Value item) {
      if (const auto id = item.AsUint()) {
        declaration.ids.push_back(*id);
        CheckRange(file, item, id);
      } else if (item.AsInt()) {
        CheckRange(file, item, std::nullopt);
      }
    };
    if (value->is_array()) {
      for (json::Value item : value->children()) add(item);
    } else {
      add(*value);
    }
    std::sort(declaration.ids.begin(), declaration.ids.end());
    if (!declaration.ids.empty()) found_.push_back(std::move(declaration));
  }

  // `id` is nothing for a negative number.
  void CheckRange(std::string_view file, json::Value item, std::optional<uint64_t> id) {
    const auto vocab_size = view_.config->Find("vocab_size");
    if (!vocab_size || !vocab_size->AsUint()) return;
    if (id && *id < *vocab_size->AsUint()) return;
    conflicts_->push_back({ErrorCode::kCfgEosRange,
                           std::string(role_.name) + "_token_id",
                           {Declare(file, item), Declare("config.json", *vocab_size)},
                           "the id lies outside the vocabulary",
                           false});
  }

  void AddToken(std::string_view file, std::optional<json::Value> root, const std::string& key) {
    if (!root || !root->is_object()) return;
    auto value = root->Find(key);
    if (value && value->is_object()) value = value->Find("content");
    if (!value || !value->is_string()) return;
    Resolve(file, *value);
  }

  void AddModelUnknown() {
    if (!view_.tokenizer || !view_.tokenizer->is_object()) return;
    const auto model = view_.tokenizer->Find("model");
    if (!model || !model->is_object()) return;
    const auto token = model->Find("unk_token");
    if (token && token->is_string()) Resolve("tokenizer.json", *token);
    const auto id = model->Find("unk_id");
    if (id && id->AsUint()) found_.push_back({Declare("tokenizer.json", *id), {*id->AsUint()}, true});
  }

  void Resolve(std::string_view file, json::Value token) {
    RoleDeclaration declaration{Declare(file, token), {}, true};
    if (const auto id = ResolveToken(view_, token.string())) {
      declaration.ids.push_back(*id);
    } else {
      declaration.resolves = false;
    }
    found_.push_back(std::move(declaration));
  }

  const SourceView& view_;
  const Role& role_;
  std::vector<Conflict>* conflicts_;
  std::vector<RoleDeclaration> found_;
};

bool Within(const std::vector<uint64_t>& ids, const std::vector<uint64_t>& set) {
  return std::all_of(ids.begin(), ids.end(),
                     [&](uint64_t id) { return std::find(set.begin(), set.end(), id) != set.end(); });
}

void CompareRole(const Role& role, const std::vector<RoleDeclaration>& found,
                 std::vector<Conflict>* conflicts, std::vector<std::string>* flags) {
  const auto governing =
      std::find_if(found.begin(), found.end(), [](const RoleDeclaration& d) { return d.resolves; });
  Conflict conflict{role.code, std::string(role.name) + "_token_id", {}, "", true};
  std::string ids;  // of the declarations, in their order
  for (const RoleDeclaration& declaration : found) {
    const bool agrees =
        declaration.resolves && governing != found.end() &&
        (role.name == "eos" ? Within(declaration.ids, governing->ids) : declaration.ids == governing->ids);
    if (!agrees) {
      conflict.declarations.push_back(declaration.where);
      ids += (ids.empty() ? "" : ", ") + (declaration.resolves ? IdsText(declaration.ids) : "none");
    } else if (declaration.ids != governing->ids) {
      flags->push_back(std::string(role.name) + ": " + Describe(declaration) + ", inside the set of " +
                       governing->where.Ref() + " (id " + IdsText(governing->ids) + ")");
    }
  }
  if (conflict.declarations.empty()) return;
  if (governing != found.end()) {
    conflict.declarations.push_back(governing->where);
    ids += ", " + IdsText(governing->ids);
  }
  conflict.message = "the declarations of " + std::string(role.name) + " disagree (ids " + ids + ")";
  conflicts->push_back(std::move(conflict));
}

// An id and a text that a file other than tokenizer.json ties together.
void CheckAddedToken(const SourceView& view, std::string_view file, json::Value where,
                     std::string_view content, std::optional<uint64_t> id, std::vector<Conflict>* conflicts) {
  const auto resolved = ResolveToken(view, content);
  if (resolved && resolved == id) return;
  if (!conflicts->empty() && conflicts->back().code == ErrorCode::kTokAddedId)
    return;  // the first one is enough
  Conflict conflict{ErrorCode::kTokAddedId, EscapeForDisplay(content), {Declare(file, where)}, "", true};
  conflict.declarations.push_back(Declare("tokenizer.json", *view.tokenizer));
  conflict.declarations.back().value = resolved ? std::to_string(*resolved) : "absent";
  conflict.message = std::string(file) + " and tokenizer.json give the added token " +
                     EscapeForDisplay(content) + " different ids" +
                     (resolved ? "" : ": tokenizer.json does not have it");
  conflicts->push_back(std::move(conflict));
}

std::optional<uint64_t> DecimalKey(std::string_view key) {
  if (key.empty() || key.size() > 18) return std::nullopt;
  uint64_t value = 0;
  for (char c : key) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

void FindAddedTokenConflicts(const SourceView& view, std::vector<Conflict>* conflicts) {
  if (!view.tokenizer || !view.tokenizer->is_object()) return;
  if (view.tokenizer_config && view.tokenizer_config->is_object()) {
    const auto decoder = view.tokenizer_config->Find("added_tokens_decoder");
    if (decoder && decoder->is_object()) {
      for (json::Value token : decoder->children()) {
        const auto content = token.is_object() ? token.Find("content") : std::nullopt;
        if (!content || !content->is_string()) continue;
        CheckAddedToken(view, "tokenizer_config.json", *content, content->string(), DecimalKey(token.key()),
                        conflicts);
      }
    }
  }
  if (view.added_tokens && view.added_tokens->is_object()) {
    for (json::Value id : view.added_tokens->children()) {
      CheckAddedToken(view, "added_tokens.json", id, id.key(), id.AsUint(), conflicts);
    }
  }
}

}  // namespace

void FindTokenConflicts(const SourceView& view, std::vector<Conflict>* conflicts,
                        std::vector<std::string>* flags) {
  for (const Role& role : kRoles) {
    const std::vector<RoleDeclaration> found = RoleCollector(view, role, conflicts).Collect();
    CompareRole(role, found, conflicts, flags);
  }
  FindAddedTokenConflicts(view, conflicts);
}

}  // namespace slm::acquire
