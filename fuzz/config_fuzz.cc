// config.json of family llama: an accepted file gives a configuration that encodes, decodes and plans.
#include "codec/json.h"
#include "fuzz/fuzz.h"
#include "model/llama.h"
#include "model/plan.h"

SLM_FUZZ_TARGET(data, size) {
  const auto document = slm::json::Parse(std::string(reinterpret_cast<const char*>(data), size));
  if (!document || !document->root().is_object()) return 0;
  const auto built = slm::BuildLlamaConfig(document->root(), nullptr, slm::FamilyProfile::Llama());
  if (!built) {
    slm::fuzz::RequireOffset(built.error(), size);
    // A key may be empty, and is then named so.
    const bool has_empty_key = document->root().source_text().find("\"\"") != std::string_view::npos;
    slm::fuzz::Require(!built.error().field.empty() || has_empty_key, "a refusal names its field");
    return 0;
  }
  const auto read = slm::ConfigFromCbor(slm::ConfigToCbor(built->config));
  slm::fuzz::Require(read.has_value() && *read == built->config, "configuration round trip");
  if (built->config.n_layers > 64) return 0;
  const auto plan = slm::BuildPlan(built->config);
  slm::fuzz::Require(plan.has_value(), "what is converted can be planned");
  const size_t n_tensors = slm::LlamaTensors(built->config).size();
  slm::fuzz::Require(slm::PlanTensors(*plan).size() == n_tensors, "the plan reads every tensor once");
  return 0;
}
