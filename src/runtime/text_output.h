// The visible text of a generation as its tokens come: special tokens skipped, no broken character,
// nothing from a stop string on (SMP-04). Raw ids and bytes are the caller's to keep. One thread.
#ifndef SLM_RUNTIME_TEXT_OUTPUT_H_
#define SLM_RUNTIME_TEXT_OUTPUT_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "sampler/stop_strings.h"
#include "tokenizer/tokenizer.h"

namespace slm {

class TextOutput {
 public:
  // Without a tokenizer there is no text: every piece is empty. Errors: SMP-VALUE (an empty stop string);
  // UNSUPPORTED for stop strings without a tokenizer.
  [[nodiscard]] static Result<TextOutput> Create(std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                                                 std::vector<std::string> stop_strings);

  // The text that this token makes visible, perhaps none. Error: TOK-UNKNOWN-ID.
  [[nodiscard]] Result<std::string> Push(uint32_t id);
  // What was still held back; it may end in the middle of a character. Call once, last.
  [[nodiscard]] Result<std::string> Finish();

  // Everything visible so far.
  [[nodiscard]] const std::string& text() const { return text_; }
  // Index of the stop string that was completed.
  [[nodiscard]] std::optional<size_t> stopped_by() const { return stops_.matched(); }

 private:
  TextOutput(std::unique_ptr<tokenizer::DecodeStream> decoder, StopStrings stops);
  std::string Show(const std::string& bytes);

  std::unique_ptr<tokenizer::DecodeStream> decoder_;
  StopStrings stops_;
  std::string text_;
};

}  // namespace slm

#endif  // SLM_RUNTIME_TEXT_OUTPUT_H_
