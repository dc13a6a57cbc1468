// slm compare A B [--policy P]
#include "compare/compare.h"

#include "apps/slm/chain.h"
#include "apps/slm/commands.h"
#include "evidence/receipt.h"
#include "slm_file/mapped_file.h"

namespace slm::app {
namespace {

struct CompareArgs {
  std::vector<std::string> containers;  // references first, the candidate last
  std::string policy;
};

// A container file, the observation node of a store, or RECEIPT:BACKEND.
class OpenedContainer {
 public:
  Status Open(const std::string& name, const std::string& store_directory) {
    auto file = MappedFile::Open(name);
    if (file.has_value()) {
      file_ = *std::move(file);
      auto golden = golden::Golden::Open(file_->bytes());
      if (!golden.has_value()) return Fail(std::move(golden).error().In(name));
      golden_ = *std::move(golden);
      return {};
    }
    if (file.error().code != ErrorCode::kNotFound) return Fail(std::move(file).error());
    const Error not_found = std::move(file).error();
    if (!LooksLikeId(name.substr(0, name.find(':')))) return Fail(not_found);
    auto store = Store::Open(store_directory, {.create = false, .read_only = true});
    if (!store.has_value()) return Fail(not_found);
    const size_t colon = name.find(':');
    SLM_ASSIGN(Hash256 id, ResolveNode(**store, name.substr(0, colon)));
    SLM_ASSIGN(Node node, (*store)->GetNode(id));
    if (colon != std::string::npos) {
      SLM_ASSIGN(id, ObservationOf(**store, node, name.substr(colon + 1)));
      SLM_ASSIGN(node, (*store)->GetNode(id));
    }
    if (node.type != "observation" && node.type != "oracle-run") {
      return Fail(
          MakeError(ErrorCode::kUsage, "node " + name + " is of type " + node.type + ", no observation"));
    }
    SLM_ASSIGN(golden_, evidence::OpenGoldenBlob(SourceOver(**store), evidence::HashOf(node, "blob")));
    return {};
  }
  [[nodiscard]] const golden::Golden* get() const { return golden_.get(); }

 private:
  // The observations of a receipt that this backend made.
  static Result<Hash256> ObservationOf(const Store& store, const Node& receipt, const std::string& backend) {
    if (receipt.type != "promotion")
      return Fail(ErrorCode::kUsage, "RECEIPT:BACKEND needs the id of a promotion before the colon");
    for (const Hash256& id : receipt.Children("observation")) {
      SLM_ASSIGN(const Node observation, store.GetNode(id));
      const Hash256* profile = observation.Child("backend-profile");
      if (profile == nullptr) continue;
      SLM_ASSIGN(const Node node, store.GetNode(*profile));
      if (evidence::TextOf(node, "name") == backend) return id;
    }
    return Fail(ErrorCode::kUsage, "this receipt has no observations of backend " + backend);
  }

  std::unique_ptr<MappedFile> file_;
  std::shared_ptr<const golden::Golden> golden_;
};

// The file named, else the policy that ships for this source and backend.
Result<compare::Policy> ChoosePolicy(const std::string& path, const compare::Evidence& evidence,
                                     const golden::Golden& candidate) {
  if (!path.empty()) {
    SLM_ASSIGN(const std::string text, ReadTextFile(path, kMaxPolicyBytes));
    auto policy = compare::ParsePolicy(text);
    if (!policy.has_value()) return Fail(std::move(policy).error().In(path));
    return policy;
  }
  return compare::PolicyFor(evidence, candidate);
}

Status Run(AppContext& context, const CompareArgs& args) {
  if (args.containers.size() < 2) return Fail(ErrorCode::kUsage, "compare needs a reference and a candidate");
  std::vector<OpenedContainer> opened(args.containers.size());
  std::vector<const golden::Golden*> references;
  for (size_t i = 0; i < opened.size(); ++i) {
    SLM_TRY(opened[i].Open(args.containers[i], context.store));
    if (i + 1 < opened.size()) references.push_back(opened[i].get());
  }
  compare::Evidence evidence;
  if (references.size() == 1) {
    evidence.reference = references.front();  // any two sets of observations may stand against each other
  } else {
    SLM_ASSIGN(evidence, compare::SortEvidence(references));
  }
  SLM_ASSIGN(const compare::Policy policy, ChoosePolicy(args.policy, evidence, *opened.back().get()));
  SLM_ASSIGN(const compare::Comparison comparison, compare::Compare(evidence, *opened.back().get(), policy));
  context.Print(context.json ? compare::ComparisonToJson(comparison) : compare::ComparisonToText(comparison));
  for (const compare::LevelResult& level : comparison.levels) {
    if (level.verdict != compare::Verdict::kPass && level.verdict != compare::Verdict::kNotClaimed)
      context.exit_code = 1;
  }
  if (comparison.truth.verdict == compare::Verdict::kFail ||
      comparison.truth.verdict == compare::Verdict::kError) {
    context.exit_code = 1;
  }
  return {};
}

}  // namespace

void RegisterCompare(Command& root, AppContext& context) {
  auto* args = context.Own<CompareArgs>();
  Command& command = root.Add("compare", "Two sets of observations, stage by stage");
  command.Option("observations", &args->containers,
                 "References (one, or one of each mode), then the candidate: container files, node ids or "
                 "RECEIPT:BACKEND",
                 true);
  command.Option(
      "--policy", &args->policy,
      "Tolerance policy (default: the one that ships for this source, else the general one; between "
      "two candidates: equal bits)");
  command.Help(
      {.examples =
           {"slm compare reference.golden truth.golden source.golden candidate.golden --policy p.json"},
       .input = "containers of any size, policy of at most 1 MiB",
       .memory = "the mapped containers and a few arrays of the largest observation",
       .time = "linear in the containers"});
  command.Run([args, &context] {
    const Status status = Run(context, *args);
    if (!status.has_value()) context.Report(status.error());
  });
}

}  // namespace slm::app
