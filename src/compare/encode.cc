// Comparison as deterministic CBOR, JSON and text.
#include <array>
#include <bit>
#include <charconv>
#include <cmath>

#include "base/escape.h"
#include "codec/decimal.h"
#include "codec/json.h"
#include "compare/levels.h"

namespace slm::compare {
namespace {

cbor::Value DoubleValue(double value) {
  Bytes bytes;
  AppendLe<uint64_t>(&bytes, std::bit_cast<uint64_t>(value));
  return bytes;
}

cbor::Array IndexValue(const std::vector<uint64_t>& index) {
  cbor::Array out;
  for (uint64_t i : index) out.emplace_back(i);
  return out;
}

cbor::Map EncodeDifference(const Difference& difference) {
  cbor::Map map;
  map.Set("level", LevelName(difference.level));
  map.Set("order", difference.order);
  map.Set("case_id", difference.case_id);
  map.Set("place", difference.place);
  map.Set("index", IndexValue(difference.index));
  if (difference.flat_index) map.Set("flat_index", *difference.flat_index);
  map.Set("reference", difference.reference);
  map.Set("candidate", difference.candidate);
  map.Set("reference_bits", difference.reference_bits);
  map.Set("candidate_bits", difference.candidate_bits);
  map.Set("code", difference.code);
  map.Set("what", difference.what);
  return map;
}

cbor::Map EncodeLevel(const LevelResult& level) {
  cbor::Map map;
  map.Set("level", LevelName(level.level));
  map.Set("verdict", VerdictName(level.verdict));
  map.Set("n_checks", level.n_checks);
  map.Set("n_pass", level.n_pass);
  map.Set("n_fail", level.n_fail);
  map.Set("n_error", level.n_error);
  map.Set("n_unstable", level.n_unstable);
  map.Set("n_skipped", level.n_skipped);
  map.Set("n_bit_equal", level.n_bit_equal);
  map.Set("worst_abs", DoubleValue(level.worst_abs));
  map.Set("summary", level.summary);
  if (level.first) map.Set("first", EncodeDifference(*level.first));
  return map;
}

cbor::Map EncodeElement(const ElementAt& at, const std::vector<uint64_t>& index) {
  cbor::Map map;
  map.Set("flat_index", at.flat_index);
  map.Set("index", IndexValue(index));
  map.Set("reference", DoubleValue(at.reference));
  map.Set("candidate", DoubleValue(at.candidate));
  map.Set("reference_bits", at.reference_bits);
  map.Set("candidate_bits", at.candidate_bits);
  return map;
}

cbor::Map EncodeArray(const ArrayResult& result) {
  const ArrayStats& stats = result.stats;
  cbor::Map map;
  map.Set("case_id", result.case_id);
  map.Set("name", result.name);
  map.Set("level", LevelName(result.stage.level));
  map.Set("verdict", VerdictName(result.verdict));
  map.Set("code", result.code);
  map.Set("n_elements", stats.n_elements);
  map.Set("n_bits_differ", stats.n_bits_differ);
  map.Set("n_failing", stats.n_failing);
  map.Set("n_zero_signs_differ", stats.n_zero_signs_differ);
  map.Set("max_abs", DoubleValue(stats.max_abs));
  map.Set("max_rel", DoubleValue(stats.max_rel));
  map.Set("rms", DoubleValue(stats.rms));
  cbor::Array quantiles;
  for (double quantile : stats.quantile_abs) quantiles.push_back(DoubleValue(quantile));
  map.Set("quantile_abs", std::move(quantiles));
  map.Set("max_ulp", stats.max_ulp);
  map.Set("cosine", DoubleValue(stats.cosine));
  if (stats.first_failing)
    map.Set("first_failing", EncodeElement(*stats.first_failing, result.first_failing_index));
  if (result.truth_error_candidate)
    map.Set("truth_error_candidate", DoubleValue(*result.truth_error_candidate));
  if (result.truth_error_reference)
    map.Set("truth_error_reference", DoubleValue(*result.truth_error_reference));
  if (result.truth_error_source) map.Set("truth_error_source", DoubleValue(*result.truth_error_source));
  return map;
}

cbor::Map EncodeTokens(const TokenResult& result) {
  cbor::Map map;
  map.Set("case_id", result.case_id);
  map.Set("verdict", VerdictName(result.verdict));
  map.Set("n_reference", result.n_reference);
  map.Set("n_candidate", result.n_candidate);
  map.Set("n_compared", result.n_compared);
  if (result.first_divergence) map.Set("first_divergence", *result.first_divergence);
  if (result.margin) map.Set("margin", DoubleValue(*result.margin));
  map.Set("stop_reference", result.stop_reference);
  map.Set("stop_candidate", result.stop_candidate);
  return map;
}

cbor::Map EncodeTruth(const TruthResult& truth) {
  cbor::Map map;
  map.Set("verdict", VerdictName(truth.verdict));
  map.Set("n_arrays", truth.n_arrays);
  map.Set("candidate", DoubleValue(truth.candidate));
  map.Set("reference", DoubleValue(truth.reference));
  map.Set("source", DoubleValue(truth.source));
  map.Set("summary", truth.summary);
  return map;
}

void WriteIndex(json::Writer* out, const std::vector<uint64_t>& index) {
  out->BeginArray();
  for (uint64_t i : index) out->Uint(i);
  out->EndArray();
}

void WriteDifference(json::Writer* out, const Difference& difference) {
  out->BeginObject();
  out->Key("level").String(LevelName(difference.level));
  out->Key("case").String(difference.case_id);
  out->Key("place").String(difference.place);
  out->Key("index");
  WriteIndex(out, difference.index);
  if (difference.flat_index) out->Key("flat_index").Uint(*difference.flat_index);
  out->Key("reference").String(difference.reference);
  out->Key("candidate").String(difference.candidate);
  if (!difference.reference_bits.empty()) out->Key("reference_bits").String(difference.reference_bits);
  if (!difference.candidate_bits.empty()) out->Key("candidate_bits").String(difference.candidate_bits);
  if (!difference.code.empty()) out->Key("code").String(difference.code);
  out->Key("what").String(difference.what);
  out->EndObject();
}

void WriteLevel(json::Writer* out, const LevelResult& level) {
  out->BeginObject();
  out->Key("level").String(LevelName(level.level));
  out->Key("title").String(LevelTitle(level.level));
  out->Key("verdict").String(VerdictName(level.verdict));
  out->Key("checks").Uint(level.n_checks);
  out->Key("pass").Uint(level.n_pass);
  out->Key("fail").Uint(level.n_fail);
  out->Key("error").Uint(level.n_error);
  out->Key("unstable").Uint(level.n_unstable);
  out->Key("skipped").Uint(level.n_skipped);
  out->Key("bit_equal").Uint(level.n_bit_equal);
  out->Key("worst_abs").Double(level.worst_abs);
  out->Key("summary").String(level.summary);
  if (level.first) {
    out->Key("first");
    WriteDifference(out, *level.first);
  }
  out->EndObject();
}

void WriteArray(json::Writer* out, const ArrayResult& result) {
  const ArrayStats& stats = result.stats;
  out->BeginObject();
  out->Key("case").String(result.case_id);
  out->Key("name").String(result.name);
  out->Key("level").String(LevelName(result.stage.level));
  out->Key("verdict").String(VerdictName(result.verdict));
  if (!result.code.empty()) out->Key("code").String(result.code);
  out->Key("elements").Uint(stats.n_elements);
  out->Key("bits_differ").Uint(stats.n_bits_differ);
  out->Key("failing").Uint(stats.n_failing);
  out->Key("max_abs").Double(stats.max_abs);
  out->Key("max_rel").Double(stats.max_rel);
  out->Key("rms").Double(stats.rms);
  out->Key("quantile_abs").BeginObject();
  static constexpr std::array<std::string_view, 5> kNames = {"50", "90", "99", "99.9", "100"};
  for (size_t q = 0; q < kNames.size(); ++q) out->Key(kNames[q]).Double(stats.quantile_abs[q]);
  out->EndObject();
  out->Key("max_ulp").Uint(stats.max_ulp);
  out->Key("cosine").Double(stats.cosine);
  if (result.truth_error_candidate) out->Key("truth_error_candidate").Double(*result.truth_error_candidate);
  if (result.truth_error_reference) out->Key("truth_error_reference").Double(*result.truth_error_reference);
  if (result.truth_error_source) out->Key("truth_error_source").Double(*result.truth_error_source);
  out->EndObject();
}

void WriteTokens(json::Writer* out, const TokenResult& result) {
  out->BeginObject();
  out->Key("case").String(result.case_id);
  out->Key("verdict").String(VerdictName(result.verdict));
  out->Key("reference_tokens").Uint(result.n_reference);
  out->Key("candidate_tokens").Uint(result.n_candidate);
  out->Key("compared").Uint(result.n_compared);
  if (result.first_divergence) out->Key("first_divergence").Uint(*result.first_divergence);
  if (result.margin) out->Key("margin").Double(*result.margin);
  out->Key("stop_reference").String(result.stop_reference);
  out->Key("stop_candidate").String(result.stop_candidate);
  out->EndObject();
}

std::string Padded(std::string_view text, size_t width) {
  std::string out(text);
  if (out.size() < width) out.append(width - out.size(), ' ');
  return out;
}

std::string IndexText(const std::vector<uint64_t>& index) {
  std::string out = "[";
  for (size_t i = 0; i < index.size(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(index[i]);
  }
  return out + "]";
}

}  // namespace

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  json::Writer writer;
  writer.Double(value);
  return writer.Take();
}

std::string RoundedText(double value) {
  if (!std::isfinite(value) || value == 0) return NumberText(value);
  return GeneralText(value, 3);
}

std::string DifferenceText(const Difference& difference) {
  std::string out(LevelName(difference.level));
  const bool is_whole_case = difference.place == "case" && !difference.case_id.empty();
  out += " at " + difference.place;
  if (!difference.index.empty()) out += IndexText(difference.index);
  if (!difference.case_id.empty()) out += (is_whole_case ? " " : " of case ") + difference.case_id;
  out += ": ";
  if (!difference.code.empty()) out += difference.code + ", ";
  out += difference.what;
  if (!difference.reference.empty() || !difference.candidate.empty()) {
    const auto side = [](const std::string& value, const std::string& bits) {
      return value + (bits.empty() ? "" : " (0x" + bits + ")");
    };
    out += "; reference " + side(difference.reference, difference.reference_bits) + ", candidate " +
           side(difference.candidate, difference.candidate_bits);
  }
  return out;
}

cbor::Value EncodeComparison(const Comparison& comparison) {
  cbor::Map map;
  map.Set("schema", "slm.comparison.v1");
  map.Set("policy_name", comparison.policy_name);
  map.Set("policy_version", comparison.policy_version);
  map.Set("policy_sha256", comparison.policy_sha256);
  map.Set("margin_e", DoubleValue(comparison.margin_e));
  cbor::Array levels;
  for (const LevelResult& level : comparison.levels) levels.emplace_back(EncodeLevel(level));
  map.Set("levels", std::move(levels));
  map.Set("truth", EncodeTruth(comparison.truth));
  cbor::Array arrays;
  for (const ArrayResult& result : comparison.arrays) arrays.emplace_back(EncodeArray(result));
  map.Set("arrays", std::move(arrays));
  cbor::Array tokens;
  for (const TokenResult& result : comparison.tokens) tokens.emplace_back(EncodeTokens(result));
  map.Set("tokens", std::move(tokens));
  map.Set("n_tokens_compared", comparison.n_tokens_compared);
  map.Set("n_tokens_unstable", comparison.n_tokens_unstable);
  if (comparison.first) map.Set("first", EncodeDifference(*comparison.first));
  return map;
}

std::string ComparisonToJson(const Comparison& comparison) {
  json::Writer out(true);
  out.BeginObject();
  out.Key("policy").BeginObject();
  out.Key("name").String(comparison.policy_name);
  out.Key("version").Uint(comparison.policy_version);
  out.Key("sha256").String(ToHex(comparison.policy_sha256));
  out.Key("margin_e").Double(comparison.margin_e);
  out.EndObject();
  out.Key("levels").BeginArray();
  for (const LevelResult& level : comparison.levels) WriteLevel(&out, level);
  out.EndArray();
  out.Key("truth").BeginObject();
  out.Key("verdict").String(VerdictName(comparison.truth.verdict));
  out.Key("arrays").Uint(comparison.truth.n_arrays);
  out.Key("candidate").Double(comparison.truth.candidate);
  out.Key("reference").Double(comparison.truth.reference);
  out.Key("source").Double(comparison.truth.source);
  out.Key("summary").String(comparison.truth.summary);
  out.EndObject();
  out.Key("first");
  if (comparison.first) {
    WriteDifference(&out, *comparison.first);
  } else {
    out.Null();
  }
  out.Key("arrays").BeginArray();
  for (const ArrayResult& result : comparison.arrays) WriteArray(&out, result);
  out.EndArray();
  out.Key("tokens").BeginArray();
  for (const TokenResult& result : comparison.tokens) WriteTokens(&out, result);
  out.EndArray();
  out.Key("tokens_compared").Uint(comparison.n_tokens_compared);
  out.Key("tokens_unstable").Uint(comparison.n_tokens_unstable);
  out.EndObject();
  return out.Take() + "\n";
}

std::string ComparisonToText(const Comparison& comparison) {
  std::string out;
  for (const LevelResult& level : comparison.levels) {
    out += "  " + Padded(LevelName(level.level), 5) + Padded(LevelTitle(level.level), 18) +
           Padded(VerdictName(level.verdict), 13) + EscapeLine(level.summary);
    if (level.worst_abs > 0) out += ", largest error " + RoundedText(level.worst_abs);
    out += "\n";
  }
  out += "  " + Padded("", 5) + Padded("truth rule", 18) + Padded(VerdictName(comparison.truth.verdict), 13) +
         EscapeLine(comparison.truth.summary) + "\n";
  if (comparison.first) out += "  first difference: " + EscapeLine(DifferenceText(*comparison.first)) + "\n";
  return out;
}

}  // namespace slm::compare
