#include "runtime/text_output.h"

#include <utility>

namespace slm {

TextOutput::TextOutput(std::unique_ptr<tokenizer::DecodeStream> decoder, StopStrings stops)
    : decoder_(std::move(decoder)), stops_(std::move(stops)) {}

Result<TextOutput> TextOutput::Create(std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                                      std::vector<std::string> stop_strings) {
  if (tokenizer == nullptr && !stop_strings.empty())
    return Fail(MakeError(ErrorCode::kUnsupported,
                          "stop strings need text, and the artifact has no tokenizer; use stop_ids")
                    .Field("stop"));
  SLM_ASSIGN(StopStrings stops, StopStrings::Create(std::move(stop_strings)));
  std::unique_ptr<tokenizer::DecodeStream> decoder;
  if (tokenizer != nullptr) decoder = std::make_unique<tokenizer::DecodeStream>(std::move(tokenizer), true);
  return TextOutput(std::move(decoder), std::move(stops));
}

std::string TextOutput::Show(const std::string& bytes) {
  std::string visible = stops_.Push(bytes);
  text_ += visible;
  return visible;
}

Result<std::string> TextOutput::Push(uint32_t id) {
  if (decoder_ == nullptr) return std::string();
  SLM_ASSIGN(const std::string piece, decoder_->Push(id));
  return Show(piece);
}

Result<std::string> TextOutput::Finish() {
  if (decoder_ == nullptr) return std::string();
  SLM_ASSIGN(const std::string piece, decoder_->Finish());
  std::string visible = Show(piece);
  const std::string held = stops_.Finish();
  text_ += held;
  return visible + held;
}

}  // namespace slm
