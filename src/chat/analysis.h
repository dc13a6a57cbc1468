// What a template does with conversations (TPL-03), found by rendering small ones with text that no template
// holds.
#ifndef SLM_CHAT_ANALYSIS_H_
#define SLM_CHAT_ANALYSIS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "chat/template.h"

namespace slm::chat {

// How a conversation ends up.
enum class Outcome : uint8_t {
  kRendered,  // all its content is there, once each
  kDropped,   // it renders, and some content is missing
  kRaised,    // the template raises an error of its own
  kFailed,    // it fails as the reference fails
};
[[nodiscard]] const char* OutcomeName(Outcome outcome);

struct RoleReport {
  std::string role;
  Outcome outcome = Outcome::kFailed;
  std::string alias_of;  // an earlier role that renders the same bytes; empty: none
  std::string message;   // of an error
  friend bool operator==(const RoleReport&, const RoleReport&) = default;
};

struct Analysis {
  std::vector<RoleReport> roles;    // after a user's turn
  std::string system;               // "optional", "required", "forbidden", "dropped"
  bool synthesizes_system = false;  // the word stands in a rendering whose messages have no such role
  Outcome two_systems{};
  Outcome two_users{};
  Outcome two_assistants{};
  Outcome assistant_first{};
  Outcome empty_content{};
  Outcome null_content{};
  Outcome no_messages{};
  bool trims_content = false;
  std::string unknown_role;               // "copied", "mapped", "dropped", "raised", "failed"
  std::string generation_prefix;          // text that add_generation_prompt adds; empty: none
  bool generation_prefix_appends = true;  // false: it changes what stands before
  uint64_t bos_count = 0;                 // of the variable bos_token in three turns
  uint64_t bos_offset = 0;                // bytes before the first
  uint64_t eos_count = 0;
  bool ends_with_eos = false;  // after a last turn of the assistant
  bool uses_tools = false;
  bool uses_documents = false;
  bool keeps_thinking = false;  // of an earlier turn
  bool uses_clock = false;
  // Whether the rendering of a conversation begins with the rendering of its beginning; if not, the first
  // byte that differs.
  bool extends_prefix = true;
  uint64_t first_changed_byte = 0;
  std::vector<std::string>
      dead_inputs;  // of the variables that every caller passes, those that it never reads
  friend bool operator==(const Analysis&, const Analysis&) = default;
};

// Deterministic: the same template gives the same report.
[[nodiscard]] Analysis Analyze(const Template& source);
// One JSON object, members in a fixed order.
[[nodiscard]] std::string AnalysisJson(const Analysis& analysis);
// For a person, one fact a line.
[[nodiscard]] std::string AnalysisText(const Analysis& analysis);

}  // namespace slm::chat

#endif  // SLM_CHAT_ANALYSIS_H_
