#include "codec/json.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>

#include "codec/json_impl.h"

namespace slm::json {
namespace {

// True if the decimal number `text` (JSON's grammar) is below 1 in magnitude.
bool IsBelowOne(std::string_view text) {
  constexpr int64_t kLarge = 100000000000000000;  // ten times this still fits
  const size_t exponent_at = text.find_first_of("eE");
  const std::string_view digits = text.substr(0, exponent_at);
  const size_t first_nonzero = digits.find_first_of("123456789");
  if (first_nonzero == std::string_view::npos) return true;
  const size_t point = std::min(digits.find('.'), digits.size());
  // Power of ten of the first nonzero digit.
  int64_t power = first_nonzero < point ? static_cast<int64_t>(point - first_nonzero) - 1
                                        : -static_cast<int64_t>(first_nonzero - point);
  if (exponent_at != std::string_view::npos) {
    std::string_view exponent = text.substr(exponent_at + 1);
    const bool is_negative = exponent.front() == '-';
    if (is_negative || exponent.front() == '+') exponent.remove_prefix(1);
    int64_t value = 0;
    for (const char digit : exponent) value = std::min(kLarge, value * 10 + (digit - '0'));
    power += is_negative ? -value : value;
  }
  return power < 0;
}

// The nearest double, ties to even; nothing if that is an infinity.
std::optional<double> ParseDouble(std::string_view text) {
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec == std::errc()) return std::isfinite(value) ? std::optional<double>(value) : std::nullopt;
  // Out of range says the same for both ends; below the smallest double the nearest one is zero.
  if (!IsBelowOne(text)) return std::nullopt;
  return text.front() == '-' ? -0.0 : 0.0;
}

}  // namespace

Document::Document() : impl_(std::make_unique<Impl>()) {}
Document::Document(Document&&) noexcept = default;
Document& Document::operator=(Document&&) noexcept = default;
Document::~Document() = default;

Value Document::root() const {
  return Value(impl_.get(), 0);
}
std::string_view Document::text() const {
  return impl_->text;
}

Kind Value::kind() const {
  return impl_ == nullptr ? Kind::kNull : impl_->entries[index_].kind;
}
uint64_t Value::byte_offset() const {
  return impl_ == nullptr ? 0 : impl_->entries[index_].begin;
}
uint64_t Value::byte_end() const {
  return impl_ == nullptr ? 0 : impl_->entries[index_].end;
}

std::string_view Value::source_text() const {
  if (impl_ == nullptr) return {};
  const Entry& entry = impl_->entries[index_];
  return std::string_view(impl_->text).substr(entry.begin, entry.end - entry.begin);
}

std::string_view Value::string() const {
  assert(is_string());
  return impl_->StringAt(index_);
}

std::string_view Value::number_text() const {
  assert(is_number());
  return source_text();
}

bool Value::is_integer_text() const {
  if (!is_number()) return false;
  const std::string_view text = source_text();
  return text != "-0" && text.find_first_of(".eE") == std::string_view::npos;
}

std::optional<uint64_t> Value::AsUint() const {
  if (!is_integer_text()) return std::nullopt;
  const std::string_view text = source_text();
  uint64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> Value::AsInt() const {
  if (!is_integer_text()) return std::nullopt;
  const std::string_view text = source_text();
  int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

std::optional<double> Value::AsDouble() const {
  if (!is_number()) return std::nullopt;
  return ParseDouble(source_text());
}

size_t Value::size() const {
  if (!is_array() && !is_object()) return 0;
  return impl_->entries[index_].b;
}

std::optional<Value> Value::First() const {
  if (size() == 0) return std::nullopt;
  return Value(impl_, index_ + (is_object() ? 2 : 1));
}

std::optional<Value> Value::Next() const {
  if (impl_ == nullptr) return std::nullopt;
  const Entry& entry = impl_->entries[index_];
  if (entry.is_last) return std::nullopt;
  return Value(impl_, impl_->SubtreeEnd(index_) + (entry.is_member ? 1 : 0));
}

std::string_view Value::key() const {
  if (impl_ == nullptr || !impl_->entries[index_].is_member) return {};
  return impl_->StringAt(index_ - 1);
}

uint64_t Value::key_byte_offset() const {
  if (impl_ == nullptr || !impl_->entries[index_].is_member) return byte_offset();
  return impl_->entries[index_ - 1].begin;
}

std::optional<Value> Value::Find(std::string_view key) const {
  if (!is_object()) return std::nullopt;
  for (const Value member : children()) {
    if (member.key() == key) return member;
  }
  return std::nullopt;
}

std::string Value::Path() const {
  std::string path = "$";
  if (impl_ == nullptr) return path;
  // From the root down: the child whose subtree holds this value is the next step.
  Value at(impl_, 0);
  while (at.index_ != index_) {
    size_t position = 0;
    for (const Value child : at.children()) {
      if (index_ < impl_->SubtreeEnd(child.index_)) {
        if (at.is_object()) {
          path.append(".").append(child.key());
        } else {
          path.append("[").append(std::to_string(position)).append("]");
        }
        at = child;
        break;
      }
      ++position;
    }
  }
  return path;
}

}  // namespace slm::json
