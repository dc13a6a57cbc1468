// SPDX 2.3, annex D: license expressions; and the identifiers of the SPDX License List.
#include <algorithm>

#include "acquire/license.h"
#include "codec/json.h"

namespace slm::acquire {
namespace {

constexpr size_t kMaxExpressionBytes = 128;
constexpr std::string_view kReference = "LicenseRef-";

bool IsIdentifier(std::string_view word) {
  const bool is_plus = word.ends_with('+');
  if (is_plus) word.remove_suffix(1);
  if (word == kReference || word == "AND" || word == "OR" || word == "WITH" || word.empty()) return false;
  if (is_plus && word.starts_with(kReference)) return false;
  return std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
  });
}

Result<std::vector<std::string>> ReadTexts(json::Value root, std::string_view key) {
  const auto list = root.is_object() ? root.Find(key) : std::nullopt;
  if (!list || !list->is_array() || list->size() == 0) {
    return Fail(
        MakeError(ErrorCode::kSchemaValue, "a list of texts is expected").At(root.byte_offset()).Field(key));
  }
  std::vector<std::string> texts;
  for (const json::Value item : list->children()) {
    if (!item.is_string() || (!texts.empty() && item.string() <= texts.back())) {
      return Fail(MakeError(ErrorCode::kSchemaValue, "texts in increasing order are expected")
                      .At(item.byte_offset())
                      .Field(key));
    }
    texts.emplace_back(item.string());
  }
  return texts;
}

}  // namespace

bool SpdxList::Has(std::string_view identifier) const {
  if (identifier.starts_with(kReference)) return true;
  if (identifier.ends_with('+')) identifier.remove_suffix(1);
  return std::binary_search(licenses.begin(), licenses.end(), identifier);
}

bool SpdxList::HasException(std::string_view identifier) const {
  return std::binary_search(exceptions.begin(), exceptions.end(), identifier);
}

Result<SpdxList> ParseSpdxList(std::string_view json_text) {
  SLM_ASSIGN(const json::Document document, json::Parse(std::string(json_text)));
  SpdxList list;
  SLM_ASSIGN(list.licenses, ReadTexts(document.root(), "licenses"));
  SLM_ASSIGN(list.exceptions, ReadTexts(document.root(), "exceptions"));
  return list;
}

std::string SpdxFault(const SpdxList& list, std::string_view text) {
  const std::string form =
      "choice must be an SPDX expression, or LicenseRef- and a name for a license without one";
  if (text.size() > kMaxExpressionBytes) return form;
  size_t n_open = 0;
  bool wants_operand = true;
  bool after_simple = false;  // WITH follows a single license only, and one identifier follows WITH
  bool after_with = false;
  std::string unlisted;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == ' ') {
      ++at;
      continue;
    }
    if (text[at] == '(' || text[at] == ')') {
      const bool opens = text[at++] == '(';
      if (opens != wants_operand || after_with || (!opens && n_open == 0)) return form;
      n_open += opens ? size_t{1} : ~size_t{0};
      after_simple = false;
      continue;
    }
    const size_t end = std::min(text.find_first_of(" ()", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end;
    if (wants_operand) {
      if (!IsIdentifier(word)) return form;
      if (!(after_with ? list.HasException(word) : list.Has(word)) && unlisted.empty()) unlisted = word;
      after_simple = !after_with;
      wants_operand = after_with = false;
    } else {
      after_with = word == "WITH";
      if (word != "AND" && word != "OR" && !(after_with && after_simple)) return form;
      wants_operand = true;
    }
  }
  if (wants_operand || n_open != 0) return form;
  if (unlisted.empty()) return "";
  return "choice names " + unlisted +
         ", which is not on the SPDX License List (spelling and case count); a license without an identifier "
         "is "
         "LicenseRef- and a name";
}

}  // namespace slm::acquire
