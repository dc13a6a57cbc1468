// The license gate (ACQ-08): what the source says about its license, and whether that is enough.
//
// Evidence is the `license` of the model card's front matter, and license texts beside it. A text
// counts when its SHA-256 is on the list of exact texts, or when the text without its title and
// copyright lines, with blanks collapsed, is (templates such as MIT's, which carry a name). What
// the lists do not settle, a person does. Rules: docs/spec/acquisition.md. Pure functions on bytes.
#ifndef SLM_ACQUIRE_LICENSE_H_
#define SLM_ACQUIRE_LICENSE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace slm::acquire {

// What the front matter of a model card (README.md) says; absent parts are empty.
struct CardLicense {
  bool has_front_matter = false;
  bool is_declared = false;         // a `license` key is there, or could be in what is not understood
  std::vector<std::string> values;  // its scalars; more than one only for a list
  bool is_plain = true;             // false: a form outside the reader's subset
  bool stands_twice = false;
  uint64_t byte_offset = 0;  // of the value, or of the key where there is none
  std::string name;          // license_name
  std::string link;          // license_link
};
// Reads the subset of YAML that cards use: top-level `key: scalar`, flow and block lists, plain,
// single- and double-quoted scalars, comments; what belongs to other keys is skipped. Front matter outside
// the subset (a fence with blanks or never closed, a mark of byte order, indented keys, flow mappings, `?
// key`, merge keys, documents) that could hold a license counts as one that is declared and not plain.
[[nodiscard]] CardLicense ReadCardLicense(std::string_view card);

// One row of profiles/licenses/cards-v1.json.
struct LicenseFacts {
  std::string id;              // the hub's spelling: "apache-2.0"
  std::string spdx;            // SPDX identifier or LicenseRef-...
  std::string redistribution;  // "allowed", "conditional", "forbidden"
  bool attribution = false;    // notices must be kept
  std::string duties;          // further duties in words; may be empty
};
// One row of profiles/licenses/texts-v1.json.
struct LicenseText {
  Hash256 sha256{};
  std::string spdx;
  bool is_template = false;  // of the normalized text, not of the bytes
};
struct LicenseTables {
  std::vector<LicenseFacts> cards;
  std::vector<LicenseText> texts;
  Hash256 cards_hash{};  // of the two files' bytes
  Hash256 texts_hash{};

  [[nodiscard]] const LicenseFacts* FindCard(std::string_view id) const;
  [[nodiscard]] const LicenseFacts* FindSpdx(std::string_view spdx) const;
};
// Errors: the JSON and SCHEMA codes.
[[nodiscard]] Result<LicenseTables> ParseLicenseTables(std::string_view cards_json,
                                                       std::string_view texts_json);

// Identifiers of the SPDX License List: profiles/licenses/spdx-v1.json.
struct SpdxList {
  std::vector<std::string> licenses, exceptions;  // increasing

  // LicenseRef-NAME, or an identifier of the list, perhaps with a plus behind it.
  [[nodiscard]] bool Has(std::string_view identifier) const;
  [[nodiscard]] bool HasException(std::string_view identifier) const;
};
// Errors: the JSON codes, SCHEMA-VALUE.
[[nodiscard]] Result<SpdxList> ParseSpdxList(std::string_view json_text);

// SPDX 2.3, annex D: identifiers of the list (or LicenseRef-NAME) joined by AND, OR and WITH, with brackets;
// at most 128 bytes. What is wrong with `text`, or an empty text.
[[nodiscard]] std::string SpdxFault(const SpdxList& list, std::string_view text);

// A line (blanks collapsed) that is a title of a known license and nothing else.
[[nodiscard]] bool IsLicenseTitle(std::string_view line);
// A line (blanks collapsed) of the form: Copyright, (c), years, a name. `must_be_dated`: with the word and a
// year, or the blank form of Apache-2.0's appendix.
[[nodiscard]] bool IsCopyrightLine(std::string_view line, bool must_be_dated);

// The text without its license title and copyright lines at the top, blanks collapsed to one space.
[[nodiscard]] std::string NormalizeLicenseText(std::string_view text);

// A text file of the source that claims to be its license.
struct LicenseFile {
  std::string path;
  Hash256 blob{};
  std::string_view text;
};

struct LicenseEvidence {
  std::string path;
  Hash256 blob{};
  uint64_t byte_offset = 0;
  std::string value;  // the card's word; empty for a text
  std::string spdx;   // empty if unknown
  std::string rule;   // "card", "exact-text", "template-text", "unknown-text", "other", "form"
};

struct LicenseFinding {
  std::string spdx;               // settled by the lists, or empty
  std::optional<ErrorCode> open;  // why a person must decide
  std::vector<LicenseEvidence> evidence;
  std::vector<Hash256> needs;  // hashes that a license decision must name
  std::string message;
};
// `card_path` is empty where there is no README.md; then `card` is not looked at. The finding of a
// source without any evidence has no `needs`: the caller adds the tree's id.
[[nodiscard]] LicenseFinding JudgeLicense(const LicenseTables& tables, const std::string& card_path,
                                          const Hash256& card_blob, std::string_view card,
                                          const std::vector<LicenseFile>& files);

}  // namespace slm::acquire

#endif  // SLM_ACQUIRE_LICENSE_H_
