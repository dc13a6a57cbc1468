#include "report/report.h"

#include <algorithm>

#include "evidence/promote.h"
#include "evidence/receipt.h"

namespace slm::report {
namespace {

using evidence::ClaimState;
using evidence::ObjectSource;
using evidence::Verification;

constexpr std::string_view kSharedRoles[] = {"acquisition", "artifact", "case-suite", "tolerance-policy",
                                             "oracle-run"};

// What both nodes name of these roles is the same.
Status CheckSame(const Node& receipt, const Node& run, std::span<const std::string_view> roles) {
  for (const std::string_view role : roles) {
    if (receipt.Children(role) != run.Children(role))
      return Fail(MakeError(ErrorCode::kGraphSchema,
                            "the run is of another " + std::string(role) + " than the receipt")
                      .Field(role));
  }
  return {};
}

// What promoting wrote into memory, then what was there before.
ObjectSource Over(const evidence::MemoryObjects& objects, const ObjectSource& below) {
  const ObjectSource mine = objects.Source();
  const auto first = [](const auto& read, const auto& read_below) {
    return [read, read_below](const Hash256& id) {
      auto bytes = read(id);
      return bytes.has_value() ? bytes : read_below(id);
    };
  };
  return {.node = first(mine.node, below.node), .blob = first(mine.blob, below.blob)};
}

Result<Verification> VerifyObservation(const ObjectSource& source, const Hash256& receipt, const Node& run,
                                       const evidence::SourceJudge& judge) {
  const auto child = [&](std::string_view role) -> Result<Node> {
    const Hash256* id = run.Child(role);
    if (id == nullptr)
      return Fail(MakeError(ErrorCode::kGraphMissingChild, "the observation lacks a child").Field(role));
    return evidence::ReadNode(source, *id);
  };
  SLM_ASSIGN(evidence::PromotionParts parts, evidence::PartsOfPromotion(source, receipt));
  SLM_ASSIGN(const Node build, child("runtime-build"));
  SLM_ASSIGN(parts.build, evidence::RuntimeBuildOf(build));
  SLM_ASSIGN(const Node backend, child("backend-profile"));
  SLM_ASSIGN(parts.backend, evidence::BackendOf(backend));
  parts.observation_blob = evidence::HashOf(run, "blob");
  if (const cbor::Value* engine = run.metadata.Find("engine");
      engine != nullptr && engine->AsMap() != nullptr)
    parts.engine = *engine->AsMap();
  evidence::MemoryObjects written;
  const ObjectSource over = Over(written, source);
  SLM_ASSIGN(const evidence::Promotion promotion, evidence::WritePromotion(over, written.Sink(), parts));
  return evidence::Verify(over, promotion.receipt, judge);
}

Result<BackendRun> LoadRun(const ObjectSource& source, const Hash256& receipt, const Hash256& id,
                           const evidence::SourceJudge& judge) {
  SLM_ASSIGN(const Node own, evidence::ReadNode(source, receipt));
  SLM_ASSIGN(const Node run, evidence::ReadNode(source, id));
  BackendRun loaded;
  if (run.type == "promotion") {
    SLM_TRY(CheckSame(own, run, kSharedRoles));
    loaded.backend = evidence::TextOf(run, "backend");
    SLM_ASSIGN(loaded.verification, evidence::Verify(source, id, judge));
  } else if (run.type == "observation") {
    constexpr std::string_view kRoles[] = {"artifact", "case-suite"};
    SLM_TRY(CheckSame(own, run, kRoles));
    SLM_ASSIGN(loaded.verification, VerifyObservation(source, receipt, run, judge));
    const auto promotion = loaded.verification.nodes.find(loaded.verification.receipt);
    if (promotion != loaded.verification.nodes.end())
      loaded.backend = evidence::TextOf(promotion->second, "backend");
  } else {
    return Fail(MakeError(ErrorCode::kNodeType, "a " + run.type + ", neither promotion nor observation")
                    .Field("type"));
  }
  return loaded;
}

std::string BackendOfReceipt(const Verification& verification) {
  const auto root = verification.nodes.find(verification.receipt);
  return root == verification.nodes.end() ? "" : evidence::TextOf(root->second, "backend");
}

}  // namespace

bool ReportData::Holds() const {
  return verification.Holds({}) && std::all_of(others.begin(), others.end(), [](const BackendRun& run) {
           return run.verification.Holds({});
         });
}

std::vector<BackendColumn> ColumnsOf(const ReportData& data) {
  std::vector<BackendColumn> columns;
  for (const std::string_view backend : kBackends) columns.push_back({std::string(backend), nullptr});
  const auto add = [&columns](const std::string& backend, const Verification& verification) {
    const auto found = std::find_if(columns.begin(), columns.end(),
                                    [&](const BackendColumn& one) { return one.backend == backend; });
    if (found == columns.end()) {
      columns.push_back({backend, &verification});
    } else {
      found->verification = &verification;
    }
  };
  add(BackendOfReceipt(data.verification), data.verification);
  for (const BackendRun& run : data.others) add(run.backend, run.verification);
  std::sort(columns.begin() + std::size(kBackends), columns.end(),
            [](const BackendColumn& a, const BackendColumn& b) { return a.backend < b.backend; });
  return columns;
}

std::vector<std::string> ClaimsOf(const ReportData& data) {
  std::vector<std::string> names;
  const auto add = [&names](const Verification& verification) {
    for (const evidence::Claim& claim : verification.claims) {
      if (std::find(names.begin(), names.end(), claim.name) == names.end()) names.push_back(claim.name);
    }
  };
  add(data.verification);
  for (const BackendRun& run : data.others) add(run.verification);
  return names;
}

ClaimState StateOf(const Verification* verification, std::string_view claim) {
  const evidence::Claim* found = verification == nullptr ? nullptr : verification->Find(claim);
  return found == nullptr ? ClaimState::kNotClaimed : found->state;
}

Result<ReportData> LoadReport(const evidence::ObjectSource& source, const Hash256& receipt,
                              const std::vector<Hash256>& runs, const evidence::SourceJudge& judge) {
  ReportData data;
  SLM_ASSIGN(data.verification, evidence::Verify(source, receipt, judge));
  std::vector<std::string> seen = {BackendOfReceipt(data.verification)};
  for (const Hash256& id : runs) {
    SLM_ASSIGN(BackendRun run, LoadRun(source, receipt, id, judge));
    if (std::find(seen.begin(), seen.end(), run.backend) != seen.end())
      return Fail(MakeError(ErrorCode::kUsage, "two runs of the backend " + run.backend).Field("backend"));
    seen.push_back(run.backend);
    data.others.push_back(std::move(run));
  }
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
