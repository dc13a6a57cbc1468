// What text in a conversation can change besides itself (TPL-04): every string field of a conversation filled
// with every special token, role marker, piece of template syntax, and literal that the template looks for.
#ifndef SLM_PROMPT_INJECTION_H_
#define SLM_PROMPT_INJECTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "chat/template.h"
#include "prompt/data_encoding.h"
#include "prompt/token_owners.h"
#include "tokenizer/tokenizer.h"

namespace slm::prompt {

enum class MarkerKind : uint8_t { kSpecialToken, kTemplateText, kSyntax, kBranch };
[[nodiscard]] const char* MarkerKindName(MarkerKind kind);

struct Marker {
  std::string text;
  MarkerKind kind{};
};

// One field and one marker that changes something there.
struct Injection {
  std::string field;  // "messages[1].content"
  Marker marker;
  bool changes_template = false;  // the template writes other text, or raises: a branch on content
  bool forges_tokens = false;     // the reference's ids hold a marker that stands in content
  bool copies_text = false;       // a marker of the template's own that is no token stands in the prompt
  friend bool operator==(const Injection& a, const Injection& b) {
    return a.field == b.field && a.marker.text == b.marker.text;
  }
};

struct InjectionReport {
  std::vector<std::string> fields;   // that reach a rendering
  std::vector<std::string> refused;  // fields of conversations that the template refuses
  std::vector<Marker> markers;
  uint64_t n_checks = 0;               // pairs of field and marker
  std::vector<Injection> injections;   // those that change something, in the reference itself
  uint64_t n_forged_as_reference = 0;  // pairs in which text becomes a marker in the reference
  // The same pairs with content kept data: ids of the template's parts that differ from those of neutral
  // text, where the template itself wrote the same.
  uint64_t n_forged_as_data = 0;
  uint64_t n_seams = 0;          // of neutral conversations
  uint64_t n_changed_seams = 0;  // of these, where the seam gives other ids than the reference
};

// `tokenizer` may be null: then only the text is looked at. Errors: those of the tokenizer.
[[nodiscard]] Result<InjectionReport> CheckInjection(const chat::Template& source,
                                                     const tokenizer::Tokenizer* tokenizer,
                                                     const SpecialTokens& special_tokens);

[[nodiscard]] std::string InjectionJson(const InjectionReport& report);
[[nodiscard]] std::string InjectionText(const InjectionReport& report);

}  // namespace slm::prompt

#endif  // SLM_PROMPT_INJECTION_H_
