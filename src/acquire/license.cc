#include "acquire/license.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/utf8.h"
#include "codec/sha256.h"

namespace slm::acquire {
namespace {

std::string AsciiLower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v';
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

std::string Collapsed(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (!IsBlank(c)) {
      out.push_back(c);
    } else if (!out.empty() && out.back() != ' ') {
      out.push_back(' ');
    }
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

// Words of terms: a line that holds one is never dropped as a mere notice.
bool HasWordOfTerms(std::string_view lower) {
  constexpr std::array<std::string_view, 10> kWords = {
      "not", "only", "must", "may ", "shall", "permi", "forbid", "prohibit", "restrict", "commercial"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return lower.find(word) != std::string_view::npos; });
}

// "Copyright 2020 X", "Copyright (c) 2020 X", "Copyright [yyyy] [name of copyright owner]".
bool IsDatedCopyright(std::string_view lower) {
  if (!lower.starts_with("copyright ")) return false;
  lower.remove_prefix(10);
  for (std::string_view sign : {"(c) ", "\xc2\xa9 "}) {
    if (lower.starts_with(sign)) lower.remove_prefix(sign.size());
  }
  if (lower.starts_with("[yyyy]") || lower.starts_with("{yyyy}")) return true;
  return lower.size() >= 4 &&
         std::all_of(lower.begin(), lower.begin() + 4, [](char c) { return c >= '0' && c <= '9'; });
}

// Lines that name the license or its holder, not the terms. Before the terms begin, a title and
// any copyright line count; later only a dated copyright line (the appendix of Apache-2.0).
bool IsNotice(std::string_view line, bool in_head) {
  std::string lower = AsciiLower(Collapsed(line));
  if (HasWordOfTerms(lower)) return false;
  if (IsDatedCopyright(lower)) return true;
  if (!in_head) return false;
  while (!lower.empty() && (lower.front() == '#' || lower.front() == '*' || lower.front() == ' '))
    lower.erase(0, 1);
  if (lower.starts_with("copyright") || lower.starts_with("(c)") || lower.starts_with("\xc2\xa9") ||
      lower == "all rights reserved." || lower == "all rights reserved") {
    return true;
  }
  // "MIT License", "The MIT License (MIT)", "BSD 3-Clause License", "ISC License:", ...
  return lower.size() <= 48 && lower.find("license") != std::string::npos &&
         lower.find(',') == std::string::npos;
}

}  // namespace

std::string NormalizeLicenseText(std::string_view text) {
  std::string kept;
  bool in_head = true;  // until the first line of the terms
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    if (end == std::string_view::npos) end = text.size();
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (Trimmed(line).empty() || IsNotice(line, in_head)) continue;
    in_head = false;
    kept += line;
    kept += '\n';
  }
  return Collapsed(kept);
}

const LicenseFacts* LicenseTables::FindCard(std::string_view id) const {
  for (const LicenseFacts& facts : cards) {
    if (facts.id == id) return &facts;
  }
  return nullptr;
}

const LicenseFacts* LicenseTables::FindSpdx(std::string_view spdx) const {
  for (const LicenseFacts& facts : cards) {
    if (facts.spdx == spdx) return &facts;
  }
  return nullptr;
}

namespace {

const LicenseText* FindText(const LicenseTables& tables, std::string_view text, std::string_view* rule) {
  const Hash256 exact = Sha256Of(AsBytes(text));
  const Hash256 normalized = Sha256Of(AsBytes(NormalizeLicenseText(text)));
  for (const LicenseText& row : tables.texts) {
    if (row.sha256 != (row.is_template ? normalized : exact)) continue;
    *rule = row.is_template ? "template-text" : "exact-text";
    return &row;
  }
  *rule = "unknown-text";
  return nullptr;
}

// What the card contributes; nothing if it does not speak of a license.
std::optional<LicenseEvidence> CardEvidence(const LicenseTables& tables, const std::string& path,
                                            const Hash256& blob, const CardLicense& card) {
  if (!card.is_declared) return std::nullopt;
  LicenseEvidence evidence{path, blob, card.byte_offset, "", "", "other"};
  for (const std::string& value : card.values) evidence.value += (evidence.value.empty() ? "" : ", ") + value;
  if (!card.is_plain || card.stands_twice || card.values.size() != 1) {
    evidence.rule = "form";
    return evidence;
  }
  if (const LicenseFacts* facts = tables.FindCard(AsciiLower(card.values[0]))) {
    evidence.spdx = facts->spdx;
    evidence.rule = "card";
  }
  return evidence;
}

void AddNeeds(LicenseFinding* finding) {
  for (const LicenseEvidence& evidence : finding->evidence) {
    if (!evidence.spdx.empty()) continue;
    if (std::find(finding->needs.begin(), finding->needs.end(), evidence.blob) == finding->needs.end()) {
      finding->needs.push_back(evidence.blob);
    }
  }
}

}  // namespace

namespace {

bool IsSpdxId(std::string_view word) {
  const bool is_plus = word.ends_with('+');
  if (is_plus) word.remove_suffix(1);
  constexpr std::string_view kRef = "LicenseRef-";
  if (word == kRef || word == "AND" || word == "OR" || word == "WITH" || word.empty()) return false;
  if (is_plus && word.starts_with(kRef)) return false;
  return std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
  });
}

}  // namespace

bool IsSpdxExpression(std::string_view text) {
  if (text.size() > 128) return false;
  size_t n_open = 0;
  bool wants_operand = true;
  bool after_simple = false;  // WITH follows a single license only, and one identifier follows WITH
  bool after_with = false;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == ' ') {
      ++at;
      continue;
    }
    if (text[at] == '(' || text[at] == ')') {
      const bool opens = text[at++] == '(';
      if (opens != wants_operand || after_with || (!opens && n_open == 0)) return false;
      n_open += opens ? size_t{1} : ~size_t{0};
      after_simple = false;
      continue;
    }
    const size_t end = std::min(text.find_first_of(" ()", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end;
    if (wants_operand) {
      if (!IsSpdxId(word)) return false;
      after_simple = !after_with;
      wants_operand = after_with = false;
    } else {
      after_with = word == "WITH";
      if (word != "AND" && word != "OR" && !(after_with && after_simple)) return false;
      wants_operand = true;
    }
  }
  return !wants_operand && n_open == 0;
}

LicenseFinding JudgeLicense(const LicenseTables& tables, const std::string& card_path,
                            const Hash256& card_blob, std::string_view card,
                            const std::vector<LicenseFile>& files) {
  LicenseFinding finding;
  std::string card_names;  // what the card calls it, for the person who decides
  if (!card_path.empty()) {
    const CardLicense said = ReadCardLicense(card);
    card_names = said.name + (said.name.empty() || said.link.empty() ? "" : ", ") + said.link;
    if (auto evidence = CardEvidence(tables, card_path, card_blob, said)) {
      finding.evidence.push_back(*std::move(evidence));
    }
  }
  const bool card_speaks = !finding.evidence.empty();
  for (const LicenseFile& file : files) {
    std::string_view rule;
    const LicenseText* row = FindText(tables, file.text, &rule);
    finding.evidence.push_back(
        {file.path, file.blob, 0, "", row == nullptr ? "" : row->spdx, std::string(rule)});
  }
  if (finding.evidence.empty()) {
    finding.open = ErrorCode::kLicMissing;
    finding.message = "no license: neither a license in the front matter of README.md nor a license text";
    if (!card_path.empty()) finding.needs.push_back(card_blob);
    return finding;
  }
  std::set<std::string> names;
  bool has_unknown_text = false;
  for (const LicenseEvidence& evidence : finding.evidence) {
    if (!evidence.spdx.empty()) names.insert(evidence.spdx);
    has_unknown_text = has_unknown_text || evidence.rule == "unknown-text";
  }
  const LicenseEvidence& first = finding.evidence.front();
  if (card_speaks && first.rule == "form") {
    finding.open = ErrorCode::kLicOther;
    finding.message =
        "the license in the model card is not one plain identifier: " + EscapeForDisplay(first.value);
  } else if (card_speaks && first.rule == "other") {
    finding.open = ErrorCode::kLicOther;
    finding.message = "license: " + EscapeForDisplay(first.value) + " is not an identifier on the list" +
                      (card_names.empty() ? "" : " (" + EscapeForDisplay(card_names) + ")");
  } else if (has_unknown_text) {
    finding.open = ErrorCode::kLicTextUnknown;
    finding.message = "a license text that is not on the list of known texts";
  } else if (names.size() > 1) {
    finding.open = ErrorCode::kLicConflict;
    finding.message = "the license declarations disagree";
  } else {
    finding.spdx = *names.begin();
  }
  if (finding.open) AddNeeds(&finding);
  return finding;
}

}  // namespace slm::acquire
