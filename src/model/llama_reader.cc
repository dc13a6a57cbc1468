#include "model/llama_reader.h"

#include <utility>

namespace slm::llama {
namespace {

constexpr uint64_t kMaxSize = uint64_t{1} << 28;

std::string PathOf(const json::Value& value) {
  std::string path = value.Path();
  return path.starts_with("$.") ? path.substr(2) : path;
}

std::string Shorten(std::string_view text) {
  constexpr size_t kMax = 120;
  return text.size() <= kMax ? std::string(text) : std::string(text.substr(0, kMax)) + "...";
}

Error TypeError(std::string_view file, const json::Value& value, std::string_view wanted) {
  return ErrorAt(ErrorCode::kCfgType, file, value,
                 "must be " + std::string(wanted) + ", is " + Shorten(value.source_text()));
}

}  // namespace

Error ErrorAt(ErrorCode code, std::string_view file, const json::Value& value, std::string message) {
  const std::string path = PathOf(value);
  return MakeError(code, path + ": " + std::move(message)).At(value.byte_offset()).In(file).Field(path);
}

std::string Declared(std::string_view file, const json::Value& value) {
  return std::string(file) + ": " + PathOf(value) + " = " + Shorten(value.source_text());
}

Result<uint64_t> UintOf(std::string_view file, const json::Value& value) {
  if (!value.is_number() || !value.is_integer_text()) return Fail(TypeError(file, value, "an integer"));
  const std::optional<uint64_t> number = value.AsUint();
  if (!number) return Fail(ErrorAt(ErrorCode::kCfgValue, file, value, "negative or too large"));
  return *number;
}

Result<bool> BoolOf(std::string_view file, const json::Value& value) {
  if (!value.is_bool()) return Fail(TypeError(file, value, "true or false"));
  return value.boolean();
}

Result<double> NumberOf(std::string_view file, const json::Value& value) {
  if (!value.is_number()) return Fail(TypeError(file, value, "a number"));
  const std::optional<double> number = value.AsDouble();
  if (!number) return Fail(ErrorAt(ErrorCode::kCfgValue, file, value, "beyond float64"));
  return *number;
}

Result<double> FloatOf(std::string_view file, const json::Value& value) {
  if (value.is_number() && value.is_integer_text()) {
    return Fail(
        TypeError(file, value, "a number with fraction or exponent (the pinned source refuses an integer)"));
  }
  return NumberOf(file, value);
}

Result<std::string> TextOf(std::string_view file, const json::Value& value) {
  if (!value.is_string()) return Fail(TypeError(file, value, "a text"));
  return std::string(value.string());
}

Result<uint64_t> ConfigReader::Size(std::string_view key, std::string_view field, uint64_t source_default) {
  uint64_t size = source_default;
  const std::optional<json::Value> value = Find(key);
  if (value) {
    SLM_ASSIGN(size, UintOf(kConfigFile, *value));
    if (size == 0 || size > kMaxSize) {
      return Fail(ErrorAt(ErrorCode::kCfgValue, kConfigFile, *value, "must be 1 to 2^28"));
    }
  }
  Record(field, DeclaredOrNot(key),
         SourceOf(key) + (value ? ": as declared" : ": default " + std::to_string(source_default)), "",
         std::to_string(size));
  return size;
}

Result<bool> ConfigReader::Flag(std::string_view key, std::string_view field, bool source_default) {
  bool flag = source_default;
  const std::optional<json::Value> value = Find(key);
  if (value) {
    SLM_ASSIGN(flag, BoolOf(kConfigFile, *value));
  }
  Record(field, DeclaredOrNot(key),
         SourceOf(key) + (value            ? ": as declared"
                          : source_default ? ": default true"
                                           : ": default false"),
         "", flag ? "true" : "false");
  return flag;
}

std::string ConfigReader::SourceOf(std::string_view key) const {
  const KeyRule* rule = profile_.ConfigKey(key);
  return rule == nullptr || rule->source.empty() ? profile_.pinned_source() : rule->source;
}

std::string ConfigReader::DeclaredOrNot(std::string_view key) const {
  const std::optional<json::Value> value = Find(key);
  return value ? Declared(kConfigFile, *value) : "not declared";
}

void ConfigReader::Record(std::string_view field, std::string publisher, std::string pinned,
                          std::string undefined, std::string choice) {
  result_->records.push_back(
      {std::string(field), std::move(publisher), std::move(pinned), std::move(undefined), std::move(choice)});
}

std::string DoubleText(double value) {
  json::Writer writer;
  writer.Double(value);
  return writer.Take();
}

}  // namespace slm::llama
