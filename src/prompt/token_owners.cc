#include "prompt/token_owners.h"

#include "base/utf8.h"

namespace slm::prompt {
namespace {

// Whether a tokenizer makes nothing of a text: some drop white space.
bool GivesNoIds(const tokenizer::Tokenizer& tokenizer, std::string_view text) {
  constexpr size_t kMostDropped = 64;
  if (text.empty() || text.size() > kMostDropped) return text.empty();
  const auto encoding =
      tokenizer.Encode(text, {.add_special_tokens = false, .truncation = false, .padding = false});
  return encoding && encoding->ids.empty();
}

// How often `token` stands in the bytes [begin, end) of the prompt; *at_edge: whether one begins or ends the
// prompt.
uint64_t CountOf(const tokenizer::Tokenizer& tokenizer, const PromptText& prompt, uint64_t begin,
                 uint64_t end, std::string_view token, bool at_start, bool* at_edge) {
  uint64_t n = 0;
  const std::string_view part = prompt.text.substr(begin, end - begin);
  for (size_t at = part.find(token); at != std::string_view::npos; at = part.find(token, at + token.size())) {
    ++n;
    const uint64_t from = begin + at;
    const std::string_view beyond =
        at_start ? prompt.text.substr(0, from) : prompt.text.substr(from + token.size());
    *at_edge = *at_edge || GivesNoIds(tokenizer, beyond);
  }
  return n;
}

std::vector<std::string> TokensOf(const tokenizer::Tokenizer& tokenizer, const std::vector<uint32_t>& ids) {
  std::vector<std::string> tokens;
  for (const uint32_t id : ids) tokens.push_back(tokenizer.IdToToken(id).value_or(std::to_string(id)));
  return tokens;
}

TokenOwner OwnerOf(const tokenizer::Tokenizer& tokenizer, const SpecialTokens& special_tokens,
                   std::string_view name, const std::vector<std::string>& added, const PromptText& prompt,
                   bool at_start) {
  TokenOwner owner;
  for (const auto& [key, text] : special_tokens) {
    if (key == name) owner.token = text;
  }
  for (const std::string& token : added) {
    // A model that declares no token may still have its tokenizer add one.
    if (!owner.token.empty() && token != owner.token) continue;
    owner.token = token;
    owner.tokenizer_would_add = true;
    if (prompt.tokenizer_adds) ++owner.n_by_tokenizer;
  }
  if (owner.token.empty()) return owner;
  const auto count = [&](uint64_t begin, uint64_t end, bool* at_edge) {
    return CountOf(tokenizer, prompt, begin, end, owner.token, at_start, at_edge);
  };
  if (prompt.spans.empty()) owner.n_by_content = count(0, prompt.text.size(), &owner.content_first);
  for (const chat::Span& span : prompt.spans) {
    if (IsTemplateOwner(span.owner)) {
      owner.n_by_template += count(span.begin, span.end, &owner.first);
    } else {
      owner.n_by_content += count(span.begin, span.end, &owner.content_first);
    }
  }
  owner.emitted_by = owner.n_by_template > 0    ? "template"
                     : owner.n_by_tokenizer > 0 ? "tokenizer"
                     : owner.n_by_content > 0   ? "content"
                                                : "none";
  return owner;
}

void Write(const char* name, const TokenOwner& owner, json::Writer& out) {
  out.Key(name).BeginObject().Key("token").String(owner.token).Key("emitted_by").String(owner.emitted_by);
  out.Key("times").Uint(owner.n_by_template).Key("by_tokenizer").Uint(owner.n_by_tokenizer);
  out.Key("by_content").Uint(owner.n_by_content);
  out.Key("tokenizer_would_add").Bool(owner.tokenizer_would_add).Key("suppressed").Bool(owner.suppressed());
  out.Key("would_double").Bool(owner.would_double()).Key("doubled").Bool(owner.doubled()).EndObject();
}

cbor::Map ToCbor(const TokenOwner& owner) {
  return cbor::Map{{"token", owner.token},
                   {"emitted_by", owner.emitted_by},
                   {"by_template", owner.n_by_template},
                   {"by_tokenizer", owner.n_by_tokenizer},
                   {"by_content", owner.n_by_content},
                   {"suppressed", owner.suppressed()},
                   {"doubled", owner.doubled()}};
}

std::string Times(uint64_t n) {
  return n == 1 ? "once" : std::to_string(n) + " times";
}

}  // namespace

bool IsTemplateOwner(std::string_view owner) {
  return owner == "template" ||
         (owner.ends_with("_token") && owner.find_first_of(".[") == std::string_view::npos);
}

TokenOwners OwnersOf(const tokenizer::Tokenizer& tokenizer, const SpecialTokens& special_tokens,
                     const PromptText& prompt) {
  TokenOwners owners;
  owners.prefix = TokensOf(tokenizer, tokenizer.prefix_ids());
  owners.suffix = TokensOf(tokenizer, tokenizer.suffix_ids());
  owners.tokenizer_adds = prompt.tokenizer_adds;
  owners.bos = OwnerOf(tokenizer, special_tokens, "bos_token", owners.prefix, prompt, true);
  owners.eos = OwnerOf(tokenizer, special_tokens, "eos_token", owners.suffix, prompt, false);
  return owners;
}

void WriteTokenOwners(const TokenOwners& owners, json::Writer& out) {
  out.BeginObject();
  Write("bos", owners.bos, out);
  Write("eos", owners.eos, out);
  out.Key("tokenizer").BeginObject();
  const auto tokens = [&out](const char* name, const std::vector<std::string>& list) {
    out.Key(name).BeginArray();
    for (const std::string& token : list) out.String(token);
    out.EndArray();
  };
  tokens("prefix", owners.prefix);
  tokens("suffix", owners.suffix);
  out.Key("adds").Bool(owners.tokenizer_adds).EndObject().EndObject();
}

cbor::Map TokenOwnersCbor(const TokenOwners& owners) {
  return cbor::Map{
      {"bos", ToCbor(owners.bos)}, {"eos", ToCbor(owners.eos)}, {"tokenizer_adds", owners.tokenizer_adds}};
}

std::string EmitterText(const TokenOwner& owner) {
  if (owner.token.empty()) return "the model has none";
  std::string text;
  if (owner.n_by_template > 0) text = "the template, " + Times(owner.n_by_template);
  if (owner.n_by_tokenizer > 0)
    text += std::string(text.empty() ? "" : "; ") + "the tokenizer, " + Times(owner.n_by_tokenizer);
  if (owner.n_by_content > 0)
    text += std::string(text.empty() ? "" : "; ") + "the input's own text, " + Times(owner.n_by_content);
  if (text.empty()) text = "nobody";
  if (owner.suppressed()) {
    text += "; the tokenizer puts one around plain text and is told not to here";
    if (owner.is_lost()) text += ": this prompt has none";
  }
  if (owner.doubled()) text += "; it stands twice";
  return text;
}

std::string TokenOwnersText(const TokenOwners& owners) {
  const auto line = [](const char* name, const TokenOwner& owner) {
    return std::string(name) + (owner.token.empty() ? "" : " |" + EscapeForDisplay(owner.token) + "|") +
           ": " + EmitterText(owner) + "\n";
  };
  return line("BOS", owners.bos) + line("EOS", owners.eos);
}

}  // namespace slm::prompt
