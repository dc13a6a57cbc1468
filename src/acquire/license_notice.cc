// Lines of a license text that name it or its holder, and nothing else.
//
// What stands on such a line is dropped before the text is compared with the list, so no line may pass
// that could carry terms: titles are a closed list, and a copyright line has a closed form (years, then a
// short name made of name words). A line that is neither stays, and the text is not on the list.
#include <algorithm>
#include <array>
#include <vector>

#include "acquire/license.h"

namespace slm::acquire {
namespace {

constexpr size_t kMaxNoticeBytes = 160;
constexpr size_t kMaxHolderWords = 12;

// In lower case, without decoration and a colon at the end.
constexpr std::array<std::string_view, 26> kTitles = {"license",
                                                      "licence",
                                                      "mit license",
                                                      "mit license (mit)",
                                                      "the mit license",
                                                      "the mit license (mit)",
                                                      "license (mit)",
                                                      "license: mit",
                                                      "expat license",
                                                      "mit/expat license",
                                                      "apache license",
                                                      "isc license",
                                                      "isc license (isc)",
                                                      "isc license (iscl)",
                                                      "the isc license",
                                                      "bsd license",
                                                      "the bsd license",
                                                      "new bsd license",
                                                      "bsd 2-clause license",
                                                      "the 2-clause bsd license",
                                                      "bsd 2-clause \"simplified\" license",
                                                      "simplified bsd license",
                                                      "bsd 3-clause license",
                                                      "the 3-clause bsd license",
                                                      "bsd 3-clause \"new\" or \"revised\" license",
                                                      "modified bsd license"};

// Words of a name that may stand in lower case.
constexpr std::array<std::string_view, 28> kNameWords = {
    "and",    "of",      "the",       "de",     "der",        "den",          "van",
    "von",    "la",      "le",        "di",     "da",         "du",           "del",
    "et",     "al.",     "team",      "team.",  "group",      "contributors", "authors",
    "author", "project", "community", "others", "developers", "affiliates",   "affiliates."};
// What "for" may follow: "Allen Institute for AI", never "X for research".
constexpr std::array<std::string_view, 9> kBodies = {
    "Institute", "Center", "Centre", "Society", "Association", "Foundation", "Academy", "Agency", "Council"};
constexpr std::array<std::string_view, 16> kAbbreviations = {"inc.", "ltd.", "co.",   "corp.", "jr.",  "sr.",
                                                             "dr.",  "st.",  "bros.", "gmbh.", "s.a.", "b.v.",
                                                             "n.v.", "l.p.", "al.",   "llc."};
// Whole words that a name of a holder does not need and terms do.
constexpr std::array<std::string_view, 40> kTermWords = {
    "no",    "not",    "non",   "only",  "solely", "use",     "uses",   "used",     "usage",   "using",
    "user",  "users",  "may",   "must",  "shall",  "will",    "can",    "cannot",   "void",    "valid",
    "until", "unless", "fee",   "fees",  "pay",    "payment", "paid",   "sale",     "sell",    "sold",
    "ends",  "term",   "terms", "allow", "never",  "without", "except", "purposes", "purpose", "subject"};
// Beginnings of words, likewise.
constexpr std::array<std::string_view, 32> kTermStems = {
    "allowed", "disallow", "permi",     "prohibit", "forbid",  "restrict",    "commerc",   "noncommerc",
    "licens",  "licenc",   "expir",     "terminat", "royalt",  "evaluat",     "distribut", "redistribut",
    "weapon",  "militar",  "condition", "requir",   "revok",   "revoc",       "modif",     "confidential",
    "agree",   "consent",  "exclud",    "exclusiv", "limitat", "nontransfer", "unauthori", "authoriz"};

template <size_t kSize>
bool IsOneOf(const std::array<std::string_view, kSize>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsLower(char c) {
  return c >= 'a' && c <= 'z';
}
bool IsUpper(char c) {
  return c >= 'A' && c <= 'Z';
}

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (IsUpper(c)) c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::vector<std::string_view> Words(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size());
    if (end > at) words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// "2020", "2020,", "2019-2026", "2018-", "2020-present".
bool IsYears(std::string_view word) {
  if (word.ends_with(',')) word.remove_suffix(1);
  const auto is_year = [](std::string_view text) {
    return text.size() == 4 && std::all_of(text.begin(), text.end(), IsDigit);
  };
  if (is_year(word)) return true;
  if (word.size() < 5 || !is_year(word.substr(0, 4))) return false;
  std::string_view rest = word.substr(4);
  for (std::string_view dash : {"-", "\xe2\x80\x93"}) {
    if (!rest.starts_with(dash)) continue;
    rest.remove_prefix(dash.size());
    return rest.empty() || is_year(rest) || rest == "present";
  }
  return false;
}

// The mail address or home page of a holder, in brackets: "<a@b.org>", "(https://b.org)".
bool IsAddress(std::string_view word) {
  const bool is_angled = word.starts_with('<') && word.ends_with('>');
  const bool is_round = word.starts_with('(') && word.ends_with(')');
  if (word.size() < 3 || (!is_angled && !is_round)) return false;
  word = word.substr(1, word.size() - 2);
  const bool is_page = word.starts_with("http://") || word.starts_with("https://");
  if (!is_page && std::count(word.begin(), word.end(), '@') != 1) return false;
  return std::all_of(word.begin(), word.end(), [](char c) {
    return IsLower(c) || IsUpper(c) || IsDigit(c) ||
           std::string_view("@.-_+:/").find(c) != std::string_view::npos;
  });
}

// A word that speaks of terms, also as a part of one joined by other characters.
bool HasTerms(std::string_view lower) {
  for (size_t at = 0; at < lower.size();) {
    if (!IsLower(lower[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < lower.size() && IsLower(lower[end])) ++end;
    const std::string_view part = lower.substr(at, end - at);
    if (IsOneOf(kTermWords, part)) return true;
    if (std::any_of(kTermStems.begin(), kTermStems.end(),
                    [&](std::string_view stem) { return part.starts_with(stem); })) {
      return true;
    }
    at = end;
  }
  return false;
}

bool IsNameWord(std::string_view word, std::string_view before, bool is_only, bool is_last) {
  if (word == "&") return true;
  if (IsAddress(word)) return true;
  if (word == "for") return IsOneOf(kBodies, before);
  if (word.ends_with(',')) word.remove_suffix(1);
  if (word.empty()) return false;
  const std::string lower = Lower(word);
  // A period ends a sentence, unless it ends an abbreviation, an initial, or the line.
  if (word.ends_with('.') && !is_last && !IsOneOf(kAbbreviations, lower) &&
      !(word.size() == 2 && IsUpper(word[0]))) {
    return false;
  }
  const bool has_letters = std::all_of(word.begin(), word.end(), [](char c) {
    return IsLower(c) || IsUpper(c) || IsDigit(c) || static_cast<uint8_t>(c) >= 0x80 ||
           std::string_view(".-'/&_").find(c) != std::string_view::npos;
  });
  if (!has_letters) return false;
  return is_only || !IsLower(word[0]) || IsOneOf(kNameWords, lower) || IsOneOf(kAbbreviations, lower);
}

bool IsHolder(std::vector<std::string_view> words) {
  // "All rights reserved." grants and forbids nothing that the text does not.
  if (words.size() > 3 && Lower(words[words.size() - 3]) == "all" &&
      Lower(words[words.size() - 2]) == "rights" &&
      (Lower(words.back()) == "reserved" || Lower(words.back()) == "reserved.")) {
    words.resize(words.size() - 3);
  }
  if (words.empty() || words.size() > kMaxHolderWords) return false;
  size_t n_names = 0;
  for (const std::string_view word : words) n_names += IsAddress(word) ? 0U : 1U;
  for (size_t i = 0; i < words.size(); ++i) {
    if (HasTerms(Lower(words[i]))) return false;
    if (!IsNameWord(words[i], i == 0 ? std::string_view() : words[i - 1], n_names == 1,
                    i + 1 == words.size()))
      return false;
  }
  return n_names > 0;
}

// The line without marks of headings and emphasis.
std::string_view Undecorated(std::string_view line) {
  while (!line.empty() && std::string_view("#* _").find(line.front()) != std::string_view::npos)
    line.remove_prefix(1);
  while (!line.empty() && std::string_view("#* _=").find(line.back()) != std::string_view::npos)
    line.remove_suffix(1);
  return line;
}

}  // namespace

bool IsLicenseTitle(std::string_view line) {
  std::string lower = Lower(Undecorated(line));
  if (lower.ends_with(':')) lower.pop_back();
  return IsOneOf(kTitles, lower) || lower == "all rights reserved" || lower == "all rights reserved.";
}

bool IsCopyrightLine(std::string_view line, bool must_be_dated) {
  if (line.size() > kMaxNoticeBytes) return false;
  std::vector<std::string_view> words = Words(must_be_dated ? line : Undecorated(line));
  size_t at = 0;
  const auto take_sign = [&] {
    if (at == words.size() || (Lower(words[at]) != "(c)" && words[at] != "\xc2\xa9")) return false;
    ++at;
    return true;
  };
  const bool has_word = !words.empty() && Lower(words[0]) == "copyright";
  if (has_word) ++at;
  bool has_sign = take_sign();
  if (!has_word && !has_sign) return false;
  if (at < words.size() && (words[at] == "[yyyy]" || words[at] == "{yyyy}")) {
    const std::string_view holder =
        words[at] == "[yyyy]" ? "[name of copyright owner]" : "{name of copyright owner}";
    std::string rest;
    for (size_t i = at + 1; i < words.size(); ++i) rest += (rest.empty() ? "" : " ") + std::string(words[i]);
    return rest == holder;
  }
  const size_t first_year = at;
  while (at < words.size() && IsYears(words[at])) ++at;
  if (must_be_dated && (!has_word || at == first_year)) return false;
  if (!has_sign) (void)take_sign();  // "Copyright 2020 (c) X"
  if (at < words.size() && words[at] == "by") ++at;
  return IsHolder({words.begin() + static_cast<std::ptrdiff_t>(at), words.end()});
}

}  // namespace slm::acquire
