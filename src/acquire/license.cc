#include "acquire/license.h"

#include <algorithm>
#include <set>

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

}  // namespace

std::string NormalizeLicenseText(std::string_view text) {
  std::string kept;
  bool in_head = true;  // until the first line of the terms
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    if (end == std::string_view::npos) end = text.size();
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (Trimmed(line).empty()) continue;
    const std::string collapsed = Collapsed(Trimmed(line));
    // Before the terms begin, a title and any copyright line; later only a dated copyright line (the
    // appendix of Apache-2.0).
    if ((in_head && IsLicenseTitle(collapsed)) || IsCopyrightLine(collapsed, /*must_be_dated=*/!in_head))
      continue;
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
        first.value.empty()
            ? "the front matter of the model card speaks of a license in a form that is not understood"
            : "the license in the model card is not one plain identifier: " + first.value;
  } else if (card_speaks && first.rule == "other") {
    finding.open = ErrorCode::kLicOther;
    finding.message = "license: " + first.value + " is not an identifier on the list" +
                      (card_names.empty() ? "" : " (" + card_names + ")");
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
