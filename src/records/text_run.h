// The text of a run: the prompt as ids, and what the new ids say (RUN-01, SMP-04). No model is known here:
// whoever has it chooses the ids (token_run.h). One run, one thread at a time.
#ifndef SLM_RECORDS_TEXT_RUN_H_
#define SLM_RECORDS_TEXT_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/json.h"
#include "evidence/text_half.h"
#include "records/run_request.h"
#include "runtime/text_output.h"

namespace slm::records {

class TextRun {
 public:
  // Prepares the prompt. Errors: those of TextHalf::Prepare; UNSUPPORTED, SMP-VALUE for the stop strings.
  [[nodiscard]] static Result<std::unique_ptr<TextRun>> Create(std::shared_ptr<const evidence::TextHalf> text,
                                                               const Request& request);
  TextRun(const TextRun&) = delete;
  TextRun& operator=(const TextRun&) = delete;

  [[nodiscard]] const evidence::Prompt& prompt() const { return prompt_; }
  // Of the prompt (RUN-01).
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

  // What this token made visible, perhaps nothing. Error: TOK-UNKNOWN-ID.
  [[nodiscard]] Result<std::string> Push(uint32_t id);
  // Whether a stop string was completed.
  [[nodiscard]] bool stopped() const { return output_->stopped_by().has_value(); }

  struct End {
    std::string tail;                   // visible bytes that were held back
    std::string visible;                // special tokens skipped, cut off at a stop string
    std::string raw;                    // bytes of the new tokens, nothing skipped
    std::vector<std::string> warnings;  // of the text
  };
  // Call once, last. Error: TOK-UNKNOWN-ID.
  [[nodiscard]] Result<End> Finish();

 private:
  explicit TextRun(std::shared_ptr<const evidence::TextHalf> text) : text_(std::move(text)) {}

  std::shared_ptr<const evidence::TextHalf> text_;
  evidence::Prompt prompt_;
  std::vector<std::string> warnings_;
  std::optional<TextOutput> output_;
  std::vector<uint32_t> ids_;  // pushed
};

// "text", where the bytes are well-formed, and "bytes".
void WriteVisible(std::string_view visible, json::Writer& out);

}  // namespace slm::records

#endif  // SLM_RECORDS_TEXT_RUN_H_
