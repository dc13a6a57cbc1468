#include "sampler/stop_strings.h"

#include <algorithm>
#include <utility>

namespace slm {
namespace {

std::vector<size_t> FailureTable(std::string_view text) {
  std::vector<size_t> failure(text.size(), 0);
  for (size_t i = 1, length = 0; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length]) length = failure[length - 1];
    if (text[i] == text[length]) ++length;
    failure[i] = length;
  }
  return failure;
}

}  // namespace

Result<StopStrings> StopStrings::Create(std::vector<std::string> strings) {
  std::vector<Pattern> patterns;
  for (size_t i = 0; i < strings.size(); ++i) {
    if (strings[i].empty())
      return Fail(MakeError(ErrorCode::kSampleValue, "an empty stop string would stop before the first byte")
                      .Field("stop[" + std::to_string(i) + "]"));
    std::vector<size_t> failure = FailureTable(strings[i]);
    patterns.push_back({std::move(strings[i]), std::move(failure), 0});
  }
  return StopStrings(std::move(patterns));
}

std::string StopStrings::Push(std::string_view bytes) {
  if (matched_) return {};
  size_t held = 0;
  for (const char byte : bytes) {
    held_.push_back(byte);
    held = 0;
    for (size_t i = 0; i < patterns_.size(); ++i) {
      Pattern& pattern = patterns_[i];
      while (pattern.state > 0 && pattern.text[pattern.state] != byte)
        pattern.state = pattern.failure[pattern.state - 1];
      if (pattern.text[pattern.state] == byte) ++pattern.state;
      if (pattern.state == pattern.text.size()) {
        if (!matched_ || pattern.text.size() > patterns_[*matched_].text.size()) matched_ = i;
      }
      held = std::max(held, pattern.state);
    }
    if (matched_) {
      std::string visible = std::exchange(held_, {});
      visible.resize(visible.size() - patterns_[*matched_].text.size());
      return visible;
    }
  }
  if (bytes.empty()) return {};
  std::string visible = held_.substr(0, held_.size() - held);
  held_.erase(0, visible.size());
  return visible;
}

std::string StopStrings::Finish() {
  return matched_ ? std::string() : std::exchange(held_, {});
}

}  // namespace slm
