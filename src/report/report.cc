#include "report/report.h"

#include "evidence/receipt.h"

namespace slm::report {

Result<ReportData> LoadReport(const evidence::ObjectSource& source, const Hash256& receipt,
                              const evidence::SourceJudge& judge) {
  ReportData data;
  SLM_ASSIGN(data.verification, evidence::Verify(source, receipt, judge));
  const auto& nodes = data.verification.nodes;
  const auto root = nodes.find(receipt);
  if (root == nodes.end()) return data;
  for (const Hash256& id : root->second.Children("oracle-run")) {
    const auto run = nodes.find(id);
    if (run == nodes.end()) continue;
    auto opened = evidence::OpenGoldenBlob(source, evidence::HashOf(run->second, "blob"));
    if (!opened.has_value()) continue;
    if ((*opened)->mode() == golden::Mode::kReference) data.reference = *opened;
    data.evidence.push_back(*std::move(opened));
  }
  const auto child = [&](std::string_view role) -> const Node* {
    const Hash256* id = root->second.Child(role);
    const auto found = id == nullptr ? nodes.end() : nodes.find(*id);
    return found == nodes.end() ? nullptr : &found->second;
  };
  if (const Node* observation = child("observation")) {
    auto opened = evidence::OpenGoldenBlob(source, evidence::HashOf(*observation, "blob"));
    if (opened.has_value()) data.candidate = *std::move(opened);
  }
  if (const Node* node = child("tokenizer")) {
    auto text = evidence::ReadBlob(source, evidence::HashOf(*node, "blob"));
    if (text.has_value()) {
      auto tokenizer = tokenizer::Tokenizer::FromJson(std::string(AsText(*text)), {.lenient = true});
      if (tokenizer.has_value()) data.tokenizer = *std::move(tokenizer);
    }
  }
  return data;
}

}  // namespace slm::report
