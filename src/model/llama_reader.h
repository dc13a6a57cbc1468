// Typed access to the members of a configuration file, remembering what was declared where.
// Internal to the family: used by llama.cc and llama_rope.cc.
#ifndef SLM_MODEL_LLAMA_READER_H_
#define SLM_MODEL_LLAMA_READER_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "codec/json.h"
#include "model/effective_config.h"
#include "model/family_profile.h"

namespace slm::llama {

inline constexpr std::string_view kConfigFile = "config.json";
inline constexpr std::string_view kGenerationFile = "generation_config.json";

// An error at `value` in `file`, field = the value's key path without "$.".
[[nodiscard]] Error ErrorAt(ErrorCode code, std::string_view file, const json::Value& value,
                            std::string message);

// "config.json: rope_theta = 10000.0".
[[nodiscard]] std::string Declared(std::string_view file, const json::Value& value);

// Typed values; CFG-TYPE with the offset otherwise. Integers are JSON integers, as the pinned source
// demands; Number takes integers and fractions, Float only what Python reads as a float.
[[nodiscard]] Result<uint64_t> UintOf(std::string_view file, const json::Value& value);
[[nodiscard]] Result<bool> BoolOf(std::string_view file, const json::Value& value);
[[nodiscard]] Result<double> NumberOf(std::string_view file, const json::Value& value);
[[nodiscard]] Result<double> FloatOf(std::string_view file, const json::Value& value);
[[nodiscard]] Result<std::string> TextOf(std::string_view file, const json::Value& value);

// Reads members of config.json and writes the four columns of each field.
class ConfigReader {
 public:
  ConfigReader(const json::Value& root, const FamilyProfile& profile, ConfigResult* result)
      : root_(root), profile_(profile), result_(result) {}

  // Absent and null are different: null is handed out.
  [[nodiscard]] std::optional<json::Value> Find(std::string_view key) const { return root_.Find(key); }
  [[nodiscard]] const json::Value& root() const { return root_; }
  [[nodiscard]] ConfigResult& result() { return *result_; }

  // Value of `key`, or the pinned source's default; records the field. `zero_allowed` for none here:
  // sizes are 1 to 2^28 (CFG-VALUE).
  [[nodiscard]] Result<uint64_t> Size(std::string_view key, std::string_view field, uint64_t source_default);
  [[nodiscard]] Result<bool> Flag(std::string_view key, std::string_view field, bool source_default);

  // "models/llama/configuration_llama.py:63" of a key.
  [[nodiscard]] std::string SourceOf(std::string_view key) const;
  [[nodiscard]] std::string DeclaredOrNot(std::string_view key) const;
  void Record(std::string_view field, std::string publisher, std::string pinned, std::string undefined,
              std::string choice);

 private:
  json::Value root_;
  const FamilyProfile& profile_;
  ConfigResult* result_;
};

// Fills config.rope and records its fields. Errors: CFG-ROPE, CFG-UNKNOWN-FIELD, CFG-TYPE, CFG-VALUE,
// CFG-MISSING. REQUIRES: head_dim and max_positions are set.
[[nodiscard]] Status ReadRope(ConfigReader* reader);

[[nodiscard]] std::string DoubleText(double value);

}  // namespace slm::llama

#endif  // SLM_MODEL_LLAMA_READER_H_
