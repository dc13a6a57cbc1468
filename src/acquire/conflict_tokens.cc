// BOS, EOS, PAD, UNK and added tokens: one truth in up to six files.
//
// The pinned source stops at the set of generation_config.json where it names one, else at that of
// config.json. An EOS of another file inside that set agrees and is recorded; outside it is a
// conflict (ACQ-12). The other roles must have one id everywhere.
#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

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

// The tokens of tokenizer.json by text: added tokens first, else the model's vocabulary.
class TokenIndex {
 public:
  explicit TokenIndex(const SourceView& view) {
    if (!view.tokenizer || !view.tokenizer->is_object()) return;
    const auto added = view.tokenizer->Find("added_tokens");
    if (added && added->is_array()) {
      for (json::Value token : added->children()) AddEntry(token);
    }
    const auto model = view.tokenizer->Find("model");
    const auto vocab = model && model->is_object() ? model->Find("vocab") : std::nullopt;
    if (!vocab) return;
    if (vocab->is_object()) {
      for (json::Value id : vocab->children()) ids_.try_emplace(id.key(), id.AsUint());
    } else if (vocab->is_array()) {
      uint64_t index = 0;
      for (json::Value piece : vocab->children()) {
        if (piece.is_array() && piece.size() != 0 && piece.First()->is_string())
          ids_.try_emplace(piece.First()->string(), index);
        ++index;
      }
    }
  }

  // Nothing for a token that is absent, or whose id is no natural number.
  [[nodiscard]] std::optional<uint64_t> Resolve(std::string_view content) const {
    const auto found = ids_.find(content);
    return found == ids_.end() ? std::nullopt : found->second;
  }

  // The object among the added tokens.
  [[nodiscard]] std::optional<json::Value> Entry(std::string_view content) const {
    const auto found = entries_.find(content);
    return found == entries_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  void AddEntry(json::Value token) {
    if (!token.is_object()) return;
    const auto text = token.Find("content");
    if (!text || !text->is_string()) return;
    entries_.try_emplace(text->string(), token);
    if (const auto id = token.Find("id")) ids_.try_emplace(text->string(), id->AsUint());
  }

  std::unordered_map<std::string_view, std::optional<uint64_t>> ids_;
  std::unordered_map<std::string_view, json::Value> entries_;
};

// Collects the declarations of one role. Ids come in ascending order, each once.
class RoleCollector {
 public:
  RoleCollector(const SourceView& view, const TokenIndex& tokens, const Role& role,
                std::vector<Conflict>* conflicts)
      : view_(view), tokens_(tokens), role_(role), conflicts_(conflicts) {}

  std::vector<RoleDeclaration> Collect() {
    const std::string id_key = std::string(role_.name) + "_token_id";
    const std::string token_key = std::string(role_.name) + "_token";
    if (role_.name == "eos") AddSilence();
    AddIds("generation_config.json", view_.generation_config, id_key);
    AddIds("config.json", view_.config, id_key);
    AddToken("tokenizer_config.json", view_.tokenizer_config, token_key);
    AddToken("special_tokens_map.json", view_.special_tokens_map, token_key);
    if (role_.name == "unk") AddModelUnknown();
    return std::move(found_);
  }

 private:
  // A generation_config.json that names no EOS governs too: the pinned source stops nowhere then. That
  // contradicts a config.json that names one.
  void AddSilence() {
    const auto names_one = [](std::optional<json::Value> root) {
      const auto value = root && root->is_object() ? root->Find("eos_token_id") : std::nullopt;
      return value && !value->is_null() && !(value->is_array() && value->size() == 0);
    };
    if (!view_.generation_config || names_one(view_.generation_config) || !names_one(view_.config)) return;
    const auto value =
        view_.generation_config->is_object() ? view_.generation_config->Find("eos_token_id") : std::nullopt;
    found_.push_back({value ? Declare("generation_config.json", *value)
                            : Declaration{"generation_config.json", "", 0, "no eos_token_id"},
                      {},
                      true});
  }

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
    declaration.ids.erase(std::unique(declaration.ids.begin(), declaration.ids.end()), declaration.ids.end());
    if (!declaration.ids.empty()) found_.push_back(std::move(declaration));
  }

  // `id` is nothing for a negative number. The first fault of a file says enough.
  void CheckRange(std::string_view file, json::Value item, std::optional<uint64_t> id) {
    if (!conflicts_->empty() && conflicts_->back().code == ErrorCode::kCfgEosRange &&
        conflicts_->back().field == std::string(role_.name) + "_token_id" &&
        conflicts_->back().declarations.front().file == file) {
      return;
    }
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
    if (const auto id = tokens_.Resolve(token.string())) {
      declaration.ids.push_back(*id);
    } else {
      declaration.resolves = false;
    }
    found_.push_back(std::move(declaration));
  }

  const SourceView& view_;
  const TokenIndex& tokens_;
  const Role& role_;
  std::vector<Conflict>* conflicts_;
  std::vector<RoleDeclaration> found_;
};

bool Within(const std::vector<uint64_t>& ids, const std::vector<uint64_t>& set) {
  return std::includes(set.begin(), set.end(), ids.begin(), ids.end());
}

bool IsFrom(const RoleDeclaration& declaration, std::string_view file) {
  return declaration.where.file == file;
}

// Which declarations an artifact can hold. Ids of the tokenizer's files are those of tokenizer.json; a
// template's variables take tokenizer_config.json before special_tokens_map.json; the unknown token is the
// tokenizer's own, where it has one.
void MarkChoices(const Role& role, std::vector<RoleDeclaration>* found) {
  const auto has = [&](std::string_view file) {
    return std::any_of(found->begin(), found->end(),
                       [&](const RoleDeclaration& one) { return IsFrom(one, file) && one.resolves; });
  };
  const bool in_config = has("tokenizer_config.json");
  const bool in_tokenizer = has("tokenizer.json");
  for (RoleDeclaration& one : *found) {
    bool can_hold = one.resolves;
    if (role.name != "eos") can_hold = can_hold && one.ids.size() == 1;
    if (IsFrom(one, "special_tokens_map.json")) can_hold = can_hold && !in_config;
    if (role.name == "unk") {
      const bool in_tokenizer_file = IsFrom(one, "tokenizer.json");
      const bool in_model_file = IsFrom(one, "config.json") || IsFrom(one, "generation_config.json");
      can_hold = can_hold && !in_model_file && (in_tokenizer_file || !in_tokenizer);
    }
    one.where.can_hold = can_hold;
  }
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
  conflict.acceptable = std::any_of(conflict.declarations.begin(), conflict.declarations.end(),
                                    [](const Declaration& one) { return one.can_hold; });
  conflict.why_not = "no artifact can hold one of these declarations";
  conflicts->push_back(std::move(conflict));
}

// What the other files say of added tokens against tokenizer.json, which the artifact holds: one conflict
// for all of them, so that a statement about it settles nothing that it does not name.
class AddedTokens {
 public:
  AddedTokens(const SourceView& view, const TokenIndex& tokens) : view_(view), tokens_(tokens) {}

  // An id and a text that a file other than tokenizer.json ties together.
  void CheckId(std::string_view file, json::Value where, std::string_view content,
               std::optional<uint64_t> id) {
    const auto resolved = tokens_.Resolve(content);
    if (resolved && resolved == id) return;
    Add(file, where, content,
        resolved ? "the id is " + std::to_string(*resolved) : std::string("it is absent"));
  }

  // A special token: the pinned source would add one that tokenizer.json does not have.
  void CheckPresent(std::string_view file, json::Value token) {
    const auto content = token.is_object() ? token.Find("content") : std::optional(token);
    if (!content || !content->is_string() || tokens_.Resolve(content->string())) return;
    Add(file, *content, content->string(), "it is absent");
  }

  // The flags by which the token is found in a text.
  void CheckFlags(std::string_view file, json::Value token, std::string_view content) {
    const auto ours = tokens_.Entry(content);
    if (!ours) return;
    for (const std::string_view flag : {"lstrip", "rstrip", "normalized", "single_word", "special"}) {
      const auto theirs = token.Find(flag);
      const auto own = ours->Find(flag);
      if (!theirs || !theirs->is_bool() || !own || !own->is_bool()) continue;
      if (theirs->boolean() == own->boolean()) continue;
      Add(file, *theirs, content, std::string(flag) + " is " + (own->boolean() ? "true" : "false"));
    }
  }

  void Finish(std::vector<Conflict>* conflicts) {
    if (conflict_.declarations.empty()) return;
    conflict_.acceptable = conflict_.declarations.size() <= kMaxDeclarations;
    conflict_.why_not = "more than " + std::to_string(kMaxDeclarations) + " added tokens differ";
    if (!conflict_.acceptable) conflict_.declarations.resize(kMaxDeclarations);
    conflict_.declarations.push_back(Declare("tokenizer.json", *view_.tokenizer));
    conflict_.declarations.back().value = first_;
    conflicts->push_back(std::move(conflict_));
  }

 private:
  // More than a person would read one by one.
  static constexpr size_t kMaxDeclarations = 64;

  void Add(std::string_view file, json::Value where, std::string_view content, std::string in_tokenizer) {
    if (conflict_.declarations.size() > kMaxDeclarations) return;
    if (conflict_.declarations.empty()) {
      conflict_.code = ErrorCode::kTokAddedId;
      conflict_.field = ShortenedText(content);
      conflict_.message = std::string(file) + " and tokenizer.json differ about the added token " +
                          conflict_.field + ": in tokenizer.json " + in_tokenizer;
      first_ = std::move(in_tokenizer);
    }
    conflict_.declarations.push_back(Declare(file, where));
    conflict_.declarations.back().can_hold = false;
  }

  const SourceView& view_;
  const TokenIndex& tokens_;
  Conflict conflict_;
  std::string first_;  // what tokenizer.json says about the first one
};

std::optional<uint64_t> DecimalKey(std::string_view key) {
  if (key.empty() || key.size() > 18) return std::nullopt;
  uint64_t value = 0;
  for (char c : key) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

// Roles that are no token of kRoles, and lists. Tokens of a role have codes of their own.
void CheckSpecialTokens(std::string_view file, const std::optional<json::Value>& root, AddedTokens* checker) {
  if (!root || !root->is_object()) return;
  for (json::Value member : root->children()) {
    const std::string_view key = member.key();
    const auto is_role = [key](const Role& role) {
      return key.substr(0, role.name.size()) == role.name && key.substr(role.name.size()) == "_token";
    };
    if (key == "additional_special_tokens" || key == "extra_special_tokens" ||
        key == "model_specific_special_tokens") {
      for (json::Value token : member.children()) checker->CheckPresent(file, token);
    } else if (key.ends_with("_token") && std::none_of(kRoles.begin(), kRoles.end(), is_role)) {
      checker->CheckPresent(file, member);
    }
  }
}

void FindAddedTokenConflicts(const SourceView& view, const TokenIndex& tokens,
                             std::vector<Conflict>* conflicts) {
  if (!view.tokenizer || !view.tokenizer->is_object()) return;
  AddedTokens checker(view, tokens);
  if (view.tokenizer_config && view.tokenizer_config->is_object()) {
    const auto decoder = view.tokenizer_config->Find("added_tokens_decoder");
    if (decoder && decoder->is_object()) {
      for (json::Value token : decoder->children()) {
        const auto content = token.is_object() ? token.Find("content") : std::nullopt;
        if (!content || !content->is_string()) continue;
        checker.CheckId("tokenizer_config.json", *content, content->string(), DecimalKey(token.key()));
        checker.CheckFlags("tokenizer_config.json", token, content->string());
      }
    }
  }
  if (view.added_tokens && view.added_tokens->is_object()) {
    for (json::Value id : view.added_tokens->children()) {
      checker.CheckId("added_tokens.json", id, id.key(), id.AsUint());
    }
  }
  CheckSpecialTokens("tokenizer_config.json", view.tokenizer_config, &checker);
  CheckSpecialTokens("special_tokens_map.json", view.special_tokens_map, &checker);
  checker.Finish(conflicts);
}

}  // namespace

void FindTokenConflicts(const SourceView& view, std::vector<Conflict>* conflicts,
                        std::vector<std::string>* flags) {
  const TokenIndex tokens(view);
  for (const Role& role : kRoles) {
    std::vector<RoleDeclaration> found = RoleCollector(view, tokens, role, conflicts).Collect();
    MarkChoices(role, &found);
    CompareRole(role, found, conflicts, flags);
  }
  FindAddedTokenConflicts(view, tokens, conflicts);
}

}  // namespace slm::acquire
