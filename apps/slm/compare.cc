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

// A container file, or the observation node of a store.
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
    if (!LooksLikeId(name)) return Fail(not_found);
    auto store = Store::Open(store_directory, {.create = false, .read_only = true});
    if (!store.has_value()) return Fail(not_found);
    SLM_ASSIGN(const Hash256 id, ResolveNode(**store, name));
    SLM_ASSIGN(const Node node, (*store)->GetNode(id));
    if (node.type != "observation" && node.type != "oracle-run") {
      return Fail(MakeError(ErrorCode::kUsage, "node " + name + " is a " + node.type + ", no observation"));
    }
    SLM_ASSIGN(golden_, evidence::OpenGoldenBlob(SourceOver(**store), evidence::HashOf(node, "blob")));
    return {};
  }
  [[nodiscard]] const golden::Golden* get() const { return golden_.get(); }

 private:
  std::unique_ptr<MappedFile> file_;
  std::shared_ptr<const golden::Golden> golden_;
};

Status Run(AppContext& context, const CompareArgs& args) {
  if (args.containers.size() < 2) return Fail(ErrorCode::kUsage, "compare needs a reference and a candidate");
  SLM_ASSIGN(const std::string policy_text, ReadTextFile(args.policy, kMaxPolicyBytes));
  auto policy = compare::ParsePolicy(policy_text);
  if (!policy.has_value()) return Fail(std::move(policy).error().In(args.policy));
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
  SLM_ASSIGN(const compare::Comparison comparison, compare::Compare(evidence, *opened.back().get(), *policy));
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
  args->policy = "profiles/tolerance/exact-v1-f32.json";
  Command& command = root.Add("compare", "Two sets of observations, stage by stage");
  command.Option("observations", &args->containers,
                 "References (one, or one of each mode), then the candidate: container files or node ids",
                 true);
  command.Option("--policy", &args->policy,
                 "Tolerance policy (default profiles/tolerance/exact-v1-f32.json)");
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
