// The page: sections in the order in which a reviewer asks.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "codec/cbor.h"
#include "evidence/receipt.h"
#include "prompt/token_owners.h"
#include "report/charts.h"
#include "report/html_text.h"
#include "report/report.h"
#include "report/style.h"

namespace slm::report {
namespace {

using compare::Comparison;
using compare::LevelResult;
using compare::Verdict;

constexpr size_t kMaxCasesShown = 40;
constexpr size_t kMaxTextShown = 4000;

std::string Badge(std::string_view verdict, bool big = false) {
  std::string cls(verdict);
  if (verdict == "holds") cls = "pass";
  if (verdict == "fails") cls = "fail";
  return "<span class=\"badge " + Escape(cls) + (big ? " big" : "") + "\">" + Escape(verdict) + "</span>";
}

std::string Clip(std::string_view text) {
  if (text.size() <= kMaxTextShown) return std::string(text);
  size_t end = kMaxTextShown;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + " [" + std::to_string(text.size() - end) + " more bytes]";
}

class Page {
 public:
  explicit Page(const ReportData& data) : data_(data), verification_(data.verification) {
    if (verification_.comparison) comparison_ = &*verification_.comparison;
    const auto root = verification_.nodes.find(verification_.receipt);
    if (root != verification_.nodes.end()) promotion_ = &root->second;
  }

  std::string Build() {
    out_ =
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
        "'unsafe-inline'\">\n"
        "<title>Promotion receipt: " +
        Escape(SourceName()) + "</title>\n<style>" + std::string(kStyle) + "</style>\n</head>\n<body>\n";
    Header();
    out_ += "<main>\n";
    Levels();
    Backends();
    Curves();
    TopK();
    Generations();
    SpecialTokens();
    Conflicts();
    NotProved();
    Environment();
    Identities();
    out_ +=
        "</main>\n<footer><p>Written from verdicts that were recomputed out of the raw arrays and the "
        "policy. "
        "Check it again: <code>slm verify " +
        ToHex(verification_.receipt).substr(0, 16) + "</code></p></footer>\n</body>\n</html>\n";
    return std::move(out_);
  }

 private:
  const Node* ChildOf(const Node* node, std::string_view role) const {
    if (node == nullptr || node->Child(role) == nullptr) return nullptr;
    const auto found = verification_.nodes.find(*node->Child(role));
    return found == verification_.nodes.end() ? nullptr : &found->second;
  }
  // A link where the node has an entry below; a forged or absent one has none.
  std::string NodeRef(const std::string& hex) const {
    Hash256 id{};
    return HashFromHex(hex, &id) && verification_.nodes.contains(id) ? NodeLink(hex) : IdSpan(hex);
  }
  std::string SourceName() const {
    const Node* acquisition = ChildOf(promotion_, "acquisition");
    return acquisition == nullptr ? "unknown source" : evidence::TextOf(*acquisition, "name");
  }

  void Header() {
    const bool holds = data_.Holds();
    const Node* acquisition = ChildOf(promotion_, "acquisition");
    out_ += "<header>\n<h1>" + Escape(SourceName()) + " " + Badge(holds ? "holds" : "fails", true) +
            "</h1>\n<p class=\"lead\">";
    if (acquisition != nullptr)
      out_ += "Revision " + Escape(evidence::TextOf(*acquisition, "revision")) + ", ";
    if (promotion_ != nullptr) out_ += "backend " + Escape(evidence::TextOf(*promotion_, "backend")) + ", ";
    out_ += "receipt " + NodeRef(ToHex(verification_.receipt)) + "</p>\n";
    SummaryNumbers();
    out_ += "</header>\n";
  }

  void Number(const std::string& value, const std::string& label) {
    out_ += "<li><b>" + value + "</b><span>" + label + "</span></li>";
  }

  void SummaryNumbers() {
    uint64_t n_pass = 0;
    uint64_t n_claimed = 0;
    if (comparison_ != nullptr) {
      for (const LevelResult& level : comparison_->levels) {
        n_claimed += level.verdict != Verdict::kNotClaimed;
        n_pass += level.verdict == Verdict::kPass;
      }
    }
    out_ += "<ul class=\"summary\">";
    Number(std::to_string(n_pass) + " of " + std::to_string(n_claimed), "claimed levels pass");
    if (comparison_ != nullptr) {
      Number(Grouped(comparison_->n_tokens_compared),
             "greedy tokens compared, " + std::to_string(comparison_->n_tokens_unstable) + " unstable");
      if (comparison_->truth.verdict != Verdict::kNotClaimed) {
        Number(ShortNumber(comparison_->truth.candidate),
               "largest logit error against truth; the source framework in float32 has " +
                   ShortNumber(comparison_->truth.reference));
      }
    }
    Number(Grouped(verification_.n_bytes), "bytes re-hashed in " + Grouped(verification_.n_nodes) +
                                               " nodes and " + Grouped(verification_.n_blobs) + " blobs");
    out_ += "</ul>\n";
  }

  void LevelRow(std::string_view name, std::string_view title, std::string_view verdict,
                const std::string& checks, const std::string& error, const std::string& detail,
                const std::string& first) {
    out_ += "<tr><th scope=\"row\">" + Escape(name) + "</th><td>" + Escape(title) + "</td><td>" +
            Badge(verdict) + "</td><td class=\"n\">" + checks + "</td><td class=\"n\">" + error +
            "</td><td class=\"wide\">" + Escape(detail);
    if (!first.empty()) out_ += "<span class=\"first\">" + Escape(first) + "</span>";
    out_ += "</td></tr>\n";
  }

  void Levels() {
    out_ +=
        "<h2>Levels</h2>\n<p class=\"muted\">Each level is claimed, proved and shown on its own. No level "
        "repairs another; "
        "what was not run is not claimed.</p>\n<div class=\"card scroll\"><table class=\"levels\"><thead><tr>"
        "<th scope=\"col\">Level</th><th scope=\"col\">Claim</th><th scope=\"col\">Verdict</th><th "
        "scope=\"col\" "
        "class=\"n\">Checks</th><th scope=\"col\" class=\"n\">Largest error</th><th scope=\"col\">What was "
        "found</th></tr></thead><tbody>\n";
    for (size_t i = 0; i < compare::kLevelCount; ++i) {
      const auto level = static_cast<compare::Level>(i);
      const evidence::Claim* claim = verification_.Find(compare::LevelName(level));
      if (claim == nullptr) continue;
      std::string checks = "&ndash;";
      std::string error = "&ndash;";
      std::string first;
      std::string detail = claim->detail;
      if (comparison_ != nullptr && claim->state != evidence::ClaimState::kNotClaimed) {
        const LevelResult& result = comparison_->levels[i];
        if (result.n_checks > 0) checks = Grouped(result.n_pass) + "/" + Grouped(result.n_checks);
        if (result.worst_abs > 0) error = ShortNumber(result.worst_abs);
        if (result.n_checks > 0 && claim->code != "GRAPH-MISSING-CHILD") {
          detail = claim->state == evidence::ClaimState::kHolds ? compare::LevelClaim(level)
                                                                : std::string_view(result.summary);
        }
        if (result.first) first = compare::DifferenceText(*result.first);
      }
      if (!detail.empty() && detail[0] >= 'a' && detail[0] <= 'z')
        detail[0] = static_cast<char>(detail[0] - 'a' + 'A');
      if (level == compare::Level::kL0 && claim->state == evidence::ClaimState::kFails)
        detail = claim->detail;
      std::string_view verdict = evidence::ClaimStateText(claim->state);
      if (claim->state == evidence::ClaimState::kHolds) verdict = "pass";
      if (claim->state == evidence::ClaimState::kFails) verdict = "fail";
      LevelRow(compare::LevelName(level), compare::LevelTitle(level), verdict, checks, error, detail, first);
    }
    if (const evidence::Claim* truth = verification_.Find("truth")) {
      std::string_view verdict = truth->state == evidence::ClaimState::kHolds ? "pass"
                                 : truth->state == evidence::ClaimState::kFails
                                     ? "fail"
                                     : evidence::ClaimStateText(truth->state);
      LevelRow("", "no farther from truth than the source", verdict, "&ndash;", "&ndash;", truth->detail, "");
    }
    out_ += "</tbody></table></div>\n";
    if (!verification_.problems.empty()) {
      out_ += "<h3>Problems of the graph</h3><ul class=\"plain\">";
      for (const evidence::Problem& problem : verification_.problems) {
        out_ += "<li><code>" + Escape(problem.code) + "</code> at " + NodeRef(problem.node) + ": " +
                Escape(problem.what) + "</li>";
      }
      out_ += "</ul>\n";
    }
  }

  // One column for each backend. Its claims rest on its own observations.
  void Backends() {
    const std::vector<BackendColumn> columns = ColumnsOf(data_);
    out_ +=
        "<h2>Backends</h2>\n<p class=\"muted\">Each backend has its own observations, its own receipt and "
        "its own claims; no claim of one stands for another. A backend without a receipt was not run for "
        "this report.</p>\n<div class=\"card scroll\"><table class=\"backends\"><thead><tr><th "
        "scope=\"col\">Claim</th>";
    for (const BackendColumn& column : columns) {
      out_ += "<th scope=\"col\">" + Escape(column.backend) + "<br>";
      out_ += column.verification == nullptr ? "not run" : IdSpan(ToHex(column.verification->receipt));
      out_ += "</th>";
    }
    out_ += "</tr></thead><tbody>\n";
    for (const std::string& claim : ClaimsOf(data_)) {
      out_ += "<tr><th scope=\"row\">" + Escape(claim) + "</th>";
      for (const BackendColumn& column : columns)
        out_ += "<td>" + Badge(evidence::ClaimStateText(StateOf(column.verification, claim))) + "</td>";
      out_ += "</tr>\n";
    }
    out_ += "</tbody></table></div>\n";
  }

  // Largest value of each category over all cases.
  struct Collected {
    std::vector<std::string> names;
    std::map<std::string, std::array<std::optional<double>, 4>> values;
    void Add(const std::string& name, size_t series, std::optional<double> value) {
      if (!values.contains(name)) names.push_back(name);
      auto& slot = values[name][series];
      if (value) slot = slot ? std::max(*slot, *value) : *value;
    }
    void Fill(ChartSpec* spec) const {
      spec->categories = names;
      static constexpr std::array<std::string_view, 4> kLabels = {
          "candidate against reference", "candidate against truth", "reference against truth",
          "source against truth"};
      for (size_t s = 0; s < kLabels.size(); ++s) {
        Series series{std::string(kLabels[s]), static_cast<int>(s), {}};
        bool any = false;
        for (const std::string& name : names) {
          series.values.push_back(values.at(name)[s]);
          any = any || values.at(name)[s].has_value();
        }
        if (any) spec->series.push_back(std::move(series));
      }
    }
  };

  static void AddErrors(const compare::ArrayResult& array, const std::string& name, Collected* out) {
    out->Add(name, 0, array.stats.max_abs);
    out->Add(name, 1, array.truth_error_candidate);
    out->Add(name, 2, array.truth_error_reference);
    out->Add(name, 3, array.truth_error_source);
  }

  void Curves() {
    if (comparison_ == nullptr) return;
    std::map<int64_t, std::vector<const compare::ArrayResult*>> by_stage;
    for (const compare::ArrayResult& array : comparison_->arrays)
      by_stage[array.stage.order].push_back(&array);
    Collected layers;
    Collected roles;
    for (const auto& [order, arrays] : by_stage) {
      for (const compare::ArrayResult* array : arrays) {
        const std::string& role = array->stage.role;
        if (role == "output") AddErrors(*array, "layer " + std::to_string(array->stage.layer), &layers);
        if (role == "embed" || role == "final_norm" || role == "logits") AddErrors(*array, role, &layers);
        if (role != "attn.mask" && role != "rope.inv_freq") AddErrors(*array, role, &roles);
      }
    }
    if (layers.names.empty()) return;
    ChartSpec curve{"curve",
                    "Largest error along the chain",
                    "Largest absolute error of the residual stream after each observed layer, and of "
                    "embedding, final norm and "
                    "logits, over all cases, on a logarithmic scale.",
                    {},
                    {}};
    layers.Fill(&curve);
    out_ +=
        "<h2>Error along the chain</h2>\n<p class=\"muted\">Largest absolute error over all cases. Truth is "
        "a float64 forward "
        "of the same weights; the reference is the source framework in float32.</p>\n<figure>" +
        LineChart(curve) + ChartTable(curve, "stage") + "</figure>\n";
    ChartSpec dots{
        "operators",
        "Largest error of each operator",
        "Largest absolute error of each observed operator over all layers and cases, on a logarithmic scale.",
        {},
        {}};
    roles.Fill(&dots);
    out_ += "<h3>By operator</h3>\n<figure>" + DotChart(dots) + ChartTable(dots, "operator") + "</figure>\n";
  }

  std::string TokenText(uint32_t id) const {
    if (data_.tokenizer == nullptr) return "";
    const auto text = data_.tokenizer->IdToToken(id);
    return text.has_value() ? Escape(*text) : "";
  }

  void TopK() {
    if (data_.reference == nullptr || data_.candidate == nullptr) return;
    for (const golden::Case& expected : data_.reference->cases()) {
      const golden::Case* actual = data_.candidate->content().FindCase(expected.case_id);
      const golden::Observation* ids = expected.Find("top_k.ids");
      const golden::Observation* values = expected.Find("top_k.values");
      const golden::Observation* theirs = actual == nullptr ? nullptr : actual->Find("top_k.ids");
      const golden::Observation* their_values = actual == nullptr ? nullptr : actual->Find("top_k.values");
      if (ids == nullptr || values == nullptr || theirs == nullptr || their_values == nullptr) continue;
      if (ids->shape.size() != 2 || theirs->shape != ids->shape || values->shape != ids->shape ||
          their_values->shape != ids->shape) {
        continue;
      }
      return TopKTable(expected, *ids, *values, *theirs, *their_values);
    }
  }

  void TopKTable(const golden::Case& expected, const golden::Observation& ids,
                 const golden::Observation& values, const golden::Observation& theirs,
                 const golden::Observation& their_values) {
    const uint64_t k = ids.shape[1];
    const uint64_t row = ids.shape[0] - 1;
    const std::vector<uint32_t> mine = golden::U32Values(*data_.reference, ids);
    const std::vector<uint32_t> other = golden::U32Values(*data_.candidate, theirs);
    const golden::F64Values mine_values(*data_.reference, values);
    const golden::F64Values other_values(*data_.candidate, their_values);
    out_ +=
        "<h2>Next-token candidates</h2>\n<div class=\"card scroll\"><table><caption></caption><thead><tr><th "
        "scope=\"col\" "
        "class=\"n\">Rank</th><th scope=\"col\">Reference</th><th scope=\"col\" class=\"n\">Logit</th><th "
        "scope=\"col\">Candidate</th><th scope=\"col\" class=\"n\">Logit</th><th scope=\"col\" "
        "class=\"n\">Difference</th></tr></thead><tbody>\n";
    const std::string caption = "Case " + Escape(expected.case_id) + ", last position of the prompt";
    out_.replace(out_.rfind("<caption></caption>"), 19,
                 "<caption style=\"padding:.6rem .7rem\">" + caption + "</caption>");
    for (uint64_t i = 0; i < std::min<uint64_t>(k, 8); ++i) {
      const uint64_t at = row * k + i;
      const double a = mine_values.values()[at];
      const double b = other_values.values()[at];
      out_ += "<tr><td class=\"n\">" + std::to_string(i + 1) + "</td><td><code>" + std::to_string(mine[at]) +
              "</code> " + TokenText(mine[at]) + "</td><td class=\"n\">" + ShortFixed(a) + "</td><td><code>" +
              std::to_string(other[at]) + "</code> " + TokenText(other[at]) + "</td><td class=\"n\">" +
              ShortFixed(b) + "</td><td class=\"n\">" + ShortNumber(b - a) + "</td></tr>\n";
    }
    out_ += "</tbody></table></div>\n";
  }

  static std::string ShortFixed(double value) {
    std::array<char, 64> buffer{};
    const auto result =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, 6);
    return {buffer.data(), result.ptr};
  }

  static std::string PromptText(const golden::Case& one) {
    if (one.rendered) return std::string(AsText(ByteSpan(*one.rendered)));
    if (one.input_kind == golden::InputKind::kUtf8 && one.input)
      return std::string(AsText(ByteSpan(*one.input)));
    std::string ids = "ids";
    for (size_t i = 0; i < one.ids.size() && i < 64; ++i) ids += " " + std::to_string(one.ids[i]);
    return one.ids.size() > 64 ? ids + " ..." : ids;
  }

  static std::string OutputText(const golden::Generation& generation) {
    if (!generation.text.empty()) return std::string(AsText(ByteSpan(generation.text)));
    std::string ids;
    for (const uint32_t id : generation.tokens) ids += (ids.empty() ? "" : " ") + std::to_string(id);
    return ids;
  }

  // The model's own token of that name: an id of the configuration, of several the first.
  void AddSpecialToken(const char* name, const char* field, prompt::SpecialTokens* tokens) const {
    const golden::ConfigField* config =
        data_.reference == nullptr ? nullptr : data_.reference->content().FindConfig(field);
    if (config == nullptr) return;
    const cbor::Array* several = config->value.AsArray();
    const cbor::Value* value = several == nullptr ? &config->value
                               : several->empty() ? nullptr
                                                  : &several->front();
    const uint64_t* id = value == nullptr ? nullptr : value->AsUint();
    if (id == nullptr || *id > UINT32_MAX) return;
    if (auto text = data_.tokenizer->IdToToken(static_cast<uint32_t>(*id))) tokens->emplace_back(name, *text);
  }

  // TPL-05. Cases in which template, tokenizer and input share the tokens in the same way are one row.
  void SpecialTokens() {
    if (data_.candidate == nullptr || data_.tokenizer == nullptr) return;
    prompt::SpecialTokens tokens;
    AddSpecialToken("bos_token", "bos_token_id", &tokens);
    AddSpecialToken("eos_token", "eos_token_id", &tokens);
    struct Row {
      std::string kind, bos, eos;
      uint64_t n_cases = 0;
    };
    std::vector<Row> rows;
    for (const golden::Case& one : data_.candidate->cases()) {
      if (one.tokenizations.empty() || (!one.rendered && !one.input)) continue;
      prompt::PromptText text;
      if (one.rendered) {
        text.text = AsText(ByteSpan(*one.rendered));
        if (!one.ownership) continue;
        for (const golden::OwnedInterval& part : *one.ownership)
          text.spans.push_back({part.begin, part.end, part.owner});
      } else {
        text.text = AsText(ByteSpan(*one.input));
        text.tokenizer_adds = one.tokenizations.front().add_special_tokens;
      }
      const prompt::TokenOwners owners = prompt::OwnersOf(*data_.tokenizer, tokens, text);
      const auto cell = [](const prompt::TokenOwner& owner) {
        return (owner.token.empty() ? "" : "<code>" + Escape(owner.token) + "</code> ") +
               Escape(prompt::EmitterText(owner));
      };
      const std::string kind = one.rendered          ? "messages"
                               : text.tokenizer_adds ? "text, the tokenizer adds its tokens"
                                                     : "text alone";
      Row row{kind, cell(owners.bos), cell(owners.eos)};
      const auto same = std::find_if(rows.begin(), rows.end(), [&row](const Row& other) {
        return other.kind == row.kind && other.bos == row.bos && other.eos == row.eos;
      });
      ++(same == rows.end() ? rows.emplace_back(std::move(row)) : *same).n_cases;
    }
    if (rows.empty()) return;
    out_ +=
        "<h2>Special tokens</h2>\n<p class=\"muted\">Who emits BOS and EOS in the prompts of the suite. A "
        "rendered "
        "prompt is encoded without the tokenizer's own tokens: the template wrote them.</p>\n<div "
        "class=\"card scroll\"><table><thead><tr><th scope=\"col\">Prompt</th><th scope=\"col\" "
        "class=\"n\">Cases</th><th scope=\"col\">BOS</th><th scope=\"col\">EOS</th></tr></thead><tbody>\n";
    for (const Row& row : rows) {
      out_ += "<tr><th scope=\"row\">" + row.kind + "</th><td class=\"n\">" + Grouped(row.n_cases) +
              "</td><td>" + row.bos + "</td><td>" + row.eos + "</td></tr>\n";
    }
    out_ += "</tbody></table></div>\n";
  }

  void Generations() {
    if (comparison_ == nullptr || comparison_->tokens.empty()) return;
    out_ +=
        "<h2>Generated text</h2>\n<p class=\"muted\">Greedy, end to end from each prompt. A token may differ "
        "only where the "
        "oracle's own margin is within twice the policy's bound of " +
        ShortNumber(comparison_->margin_e) + "; such a case is unstable, never accepted.</p>\n";
    size_t n_shown = 0;
    for (const compare::TokenResult& tokens : comparison_->tokens) {
      const golden::Case* expected =
          data_.reference == nullptr ? nullptr : data_.reference->content().FindCase(tokens.case_id);
      const golden::Case* actual =
          data_.candidate == nullptr ? nullptr : data_.candidate->content().FindCase(tokens.case_id);
      if (expected == nullptr || actual == nullptr || !expected->generation || !actual->generation) continue;
      if (n_shown == kMaxCasesShown) {
        out_ += "<p class=\"muted\">" + std::to_string(comparison_->tokens.size() - n_shown) +
                " more cases are in the receipt.</p>\n";
        return;
      }
      ++n_shown;
      out_ += "<section class=\"case\"><h3>" + Escape(tokens.case_id) + " " +
              Badge(compare::VerdictName(tokens.verdict)) + "<small>" + std::to_string(tokens.n_candidate) +
              " tokens, stop: " + Escape(tokens.stop_candidate);
      if (tokens.first_divergence)
        out_ += ", first differing token " + std::to_string(*tokens.first_divergence);
      if (tokens.margin) out_ += ", margin " + ShortNumber(*tokens.margin);
      out_ += "</small></h3><div class=\"prompt\"><pre>" + EscapeMultiline(Clip(PromptText(*expected))) +
              "</pre></div>";
      out_ += "<div class=\"pair\"><div><h4>Reference</h4><pre>" +
              EscapeMultiline(Clip(OutputText(*expected->generation))) +
              "</pre></div><div><h4>Candidate</h4><pre>" +
              EscapeMultiline(Clip(OutputText(*actual->generation))) + "</pre></div></div></section>\n";
    }
  }

  void Conflicts() {
    if (promotion_ == nullptr) return;
    out_ += "<h2>Conflicts and decisions</h2>\n";
    const std::vector<Hash256> conflicts = promotion_->Children("conflict");
    const std::vector<Hash256> decisions = promotion_->Children("decision");
    if (conflicts.empty() && decisions.empty()) {
      out_ +=
          "<p>The source contradicts itself nowhere that was looked at, and nothing needed a person's "
          "decision.</p>\n";
      return;
    }
    out_ += "<ul class=\"plain\">";
    for (const Hash256& id : conflicts) {
      const auto found = verification_.nodes.find(id);
      if (found == verification_.nodes.end()) continue;
      const Node& node = found->second;
      out_ += "<li>Conflict " + NodeRef(ToHex(id)) + " <code>" + Escape(evidence::TextOf(node, "code")) +
              "</code> on " + Escape(evidence::TextOf(node, "field"));
      if (const cbor::Value* input = node.metadata.Find("input");
          input != nullptr && input->AsByteString() != nullptr) {
        out_ += ", shortest input <code>" + Escape(AsText(*input->AsByteString())) + "</code>";
      }
      Declarations(node);
      out_ += "</li>";
    }
    for (const Hash256& id : decisions) {
      const auto found = verification_.nodes.find(id);
      if (found == verification_.nodes.end()) continue;
      const Node& node = found->second;
      out_ += "<li>Decision " + NodeRef(ToHex(id)) + " of kind " + Escape(evidence::TextOf(node, "kind")) +
              " by " + Escape(evidence::TextOf(node, "reviewer")) + ": " +
              Escape(evidence::TextOf(node, "reason")) + "</li>";
    }
    out_ += "</ul>\n";
  }

  void Declarations(const Node& node) {
    const cbor::Value* list = node.metadata.Find("declarations");
    if (list == nullptr || list->AsArray() == nullptr) return;
    out_ += "<ul class=\"plain\">";
    for (const cbor::Value& item : *list->AsArray()) {
      if (item.AsMap() == nullptr) continue;
      const cbor::Value* ref = item.AsMap()->Find("ref");
      const cbor::Value* value = item.AsMap()->Find("value");
      out_ += "<li>" +
              (ref != nullptr && ref->AsTextString() != nullptr ? Escape(*ref->AsTextString()) : "") +
              ": <code>" +
              (value != nullptr && value->AsTextString() != nullptr ? Escape(*value->AsTextString()) : "") +
              "</code></li>";
    }
    out_ += "</ul>";
  }

  void NotProved() {
    out_ +=
        "<h2>Open items</h2>\n<p class=\"muted\">What this receipt does not show, and what would settle "
        "it.</p>\n<ul class=\"plain\">";
    for (const evidence::OpenItem& item : evidence::OpenItems(verification_)) {
      out_ += "<li>" + Escape(item.what) + ". <span class=\"muted\">Settled by: " + Escape(item.settled_by) +
              ".</span></li>";
    }
    out_ += "<li>" + Escape(evidence::kTrustedWithoutProof) + ".</li></ul>\n";
  }

  void Row(const std::string& name, const std::string& html) {
    out_ += "<tr><th scope=\"row\">" + Escape(name) + "</th><td>" + html + "</td></tr>\n";
  }

  // "numpy 2.4.6, torch 2.11.0": the members of a map of texts.
  static std::string Listed(const cbor::Value& value) {
    std::string out;
    if (value.AsMap() == nullptr) return out;
    for (const auto& [name, member] : *value.AsMap()) {
      if (member.AsTextString() == nullptr) continue;
      out += (out.empty() ? "" : ", ") + Escape(name) + " " + Escape(*member.AsTextString());
    }
    return out;
  }

  void Environment() {
    const Node* build = ChildOf(promotion_, "runtime-build");
    out_ +=
        "<h2>Environment</h2>\n<div class=\"card scroll\"><table><thead><tr><th scope=\"col\">What</th><th "
        "scope=\"col\">Value</th></tr></thead><tbody>\n";
    if (build != nullptr) {
      Row("Compiler", Escape(evidence::TextOf(*build, "compiler")));
      Row("Linker", Escape(evidence::TextOf(*build, "linker")));
      Row("Flags", "<code>" + Escape(evidence::TextOf(*build, "flags")) + "</code>");
      Row("Executable", IdSpan(ToHex(evidence::HashOf(*build, "executable_sha256"))));
      if (build->metadata.Find("text_module_sha256") != nullptr)
        Row("Text module", IdSpan(ToHex(evidence::HashOf(*build, "text_module_sha256"))));
      Row("Source tree", IdSpan(ToHex(evidence::HashOf(*build, "source_tree_sha256"))));
    }
    for (const auto& container : data_.evidence) {
      const cbor::Value* environment = container->content().generator.Find("environment");
      const cbor::Map* map = environment == nullptr ? nullptr : environment->AsMap();
      const cbor::Value* versions = map == nullptr ? nullptr : map->Find("versions");
      const cbor::Value* cpu = map == nullptr ? nullptr : map->Find("cpu");
      const cbor::Value* model_name =
          cpu == nullptr || cpu->AsMap() == nullptr ? nullptr : cpu->AsMap()->Find("model_name");
      std::string text;
      if (versions != nullptr) text += Listed(*versions);
      if (model_name != nullptr && model_name->AsTextString() != nullptr)
        text += " on " + Escape(*model_name->AsTextString());
      Row("Oracle, " + std::string(golden::ModeName(container->mode())), text.empty() ? "&ndash;" : text);
    }
    out_ += "</tbody></table></div>\n";
  }

  void Identities() {
    out_ +=
        "<h2>Identities</h2>\n<p class=\"muted\">Every node of the receipt. Hover an id to see it whole; "
        "copying takes all of it.</p>\n"
        "<div class=\"card scroll\"><table><thead><tr><th scope=\"col\">Role</th><th "
        "scope=\"col\">Node</th></tr></thead><tbody>\n";
    Row("promotion", NodeRef(ToHex(verification_.receipt)));
    if (promotion_ != nullptr) {
      for (const Edge& edge : promotion_->edges) {
        std::string label = edge.role;
        const auto found = verification_.nodes.find(edge.child);
        if (found != verification_.nodes.end() && edge.role == "oracle-run") {
          label += " (" + evidence::TextOf(found->second, "mode") + ")";
        }
        Row(label, NodeRef(ToHex(edge.child)));
      }
    }
    if (const Node* artifact = ChildOf(promotion_, "artifact")) {
      Row("artifact root", IdSpan(ToHex(evidence::HashOf(*artifact, "root"))));
      Row("artifact file, SHA-256", IdSpan(ToHex(evidence::HashOf(*artifact, "file_sha256"))));
    }
    out_ += "</tbody></table></div>\n";
    Nodes();
  }

  // One entry for each node: what it is, and its children as links.
  void Nodes() {
    out_ += "<details><summary>All " + Grouped(verification_.nodes.size()) +
            " nodes and their children</summary><ul class=\"plain nodes\">\n";
    for (const auto& [id, node] : verification_.nodes) {
      const std::string hex = ToHex(id);
      out_ += "<li id=\"n-" + hex + "\"><b>" + Escape(node.type) + "</b> " + IdSpan(hex);
      if (!node.edges.empty()) out_ += " &rarr;";
      for (const Edge& edge : node.edges) out_ += " " + Escape(edge.role) + " " + NodeRef(ToHex(edge.child));
      out_ += "</li>\n";
    }
    out_ += "</ul></details>\n";
  }

  const ReportData& data_;
  const evidence::Verification& verification_;
  const Comparison* comparison_ = nullptr;
  const Node* promotion_ = nullptr;
  std::string out_;
};

}  // namespace

std::string ReportHtml(const ReportData& data) {
  return Page(data).Build();
}

}  // namespace slm::report
