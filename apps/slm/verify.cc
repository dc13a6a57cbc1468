// slm verify RECEIPT [--rerun] [--claim NAME ...]
#include "evidence/verify.h"

#include <filesystem>
#include <set>

#include "apps/slm/chain.h"
#include "apps/slm/commands.h"
#include "evidence/bundle.h"
#include "slm_file/mapped_file.h"

namespace slm::app {
namespace {

struct VerifyArgs {
  std::string receipt;
  std::vector<std::string> claims;
  bool rerun = false;
};

void AddRerunClaims(const std::vector<RerunStep>& steps, evidence::Verification* verification) {
  for (const RerunStep& step : steps) {
    const bool same = step.expected == step.actual;
    const std::string code(Info(ErrorCode::kRerunDiffers).name);
    evidence::Claim claim;
    claim.name = "rerun " + step.step;
    claim.state = same ? evidence::ClaimState::kHolds : evidence::ClaimState::kFails;
    claim.detail = same ? "executed again, same bytes: " + ToHex(step.actual)
                        : "executed again, other bytes: recorded " + ToHex(step.expected) + ", now " +
                              ToHex(step.actual);
    claim.node = ToHex(verification->receipt);
    claim.code = same ? "" : code;
    if (!same) verification->problems.push_back({code, claim.node, step.step, claim.detail});
    verification->claims.push_back(std::move(claim));
  }
}

// Notes the ids of the objects that `source` has and was asked for.
evidence::ObjectSource Watched(const evidence::ObjectSource& source, std::set<Hash256>* served) {
  const auto watch = [served](const auto& get) {
    return [get, served](const Hash256& id) -> Result<Bytes> {
      auto bytes = get(id);
      if (bytes.has_value()) served->insert(id);
      return bytes;
    };
  };
  return {.node = watch(source.node), .blob = watch(source.blob)};
}

// An object's id is the hash of its bytes, so a damaged object is one that nothing asks for, and the store's
// own may have stood in for it: then the bundle is not what its maker wrote.
void ClaimBundle(const evidence::Bundle& bundle, const std::set<Hash256>& served,
                 evidence::Verification* verification) {
  std::string first;
  size_t n_foreign = 0;
  for (const auto* objects : {&bundle.objects.nodes, &bundle.objects.blobs}) {
    for (const auto& [id, bytes] : *objects) {
      if (served.contains(id)) continue;
      if (n_foreign++ == 0)
        first = (objects == &bundle.objects.nodes ? "node " : "blob ") + ToHex(id) + ", " +
                std::to_string(bytes.size()) + " bytes";
    }
  }
  evidence::Claim claim;
  claim.name = "bundle";
  claim.state = n_foreign == 0 ? evidence::ClaimState::kHolds : evidence::ClaimState::kFails;
  claim.node = ToHex(verification->receipt);
  claim.detail = n_foreign == 0
                     ? std::to_string(served.size()) + " objects, each a part of the receipt"
                     : std::to_string(n_foreign) +
                           " objects that the receipt does not reach, damaged or another's; first " + first;
  if (n_foreign > 0) {
    claim.code = "FSCK-HASH";
    verification->problems.push_back({claim.code, claim.node, claim.name, claim.detail});
  }
  verification->claims.push_back(std::move(claim));
}

// A bundle's objects; what it leaves out comes from the store, where there is one. The source is judged again
// if the store has its acquisition; otherwise license and conflicts are not claimed.
Result<evidence::Verification> VerifyBundle(const AppContext& context, const VerifyArgs& args) {
  if (args.rerun)
    return Fail(MakeError(ErrorCode::kUsage, "a receipt of the store can run again, a bundle cannot")
                    .Field("--rerun"));
  SLM_ASSIGN(const auto file, MappedFile::Open(args.receipt));
  auto bundle = evidence::DecodeBundle(file->bytes());
  if (!bundle.has_value()) return Fail(std::move(bundle).error().In(args.receipt));
  std::set<Hash256> served;
  evidence::ObjectSource source = Watched(bundle->objects.Source(), &served);
  std::unique_ptr<Store> store;
  evidence::SourceJudge judge;
  std::error_code ignored;
  if (std::filesystem::is_directory(context.store, ignored)) {
    SLM_ASSIGN(store, Store::Open(context.store, {.create = false, .read_only = true}));
    source = evidence::Overlay(std::move(source), SourceOver(*store));
    judge = [&store](const Hash256& acquisition) -> std::optional<evidence::SourceFault> {
      if (store->GetNode(acquisition)) return JudgeOver(*store)(acquisition);
      return evidence::SourceFault{
          "source", MakeError(ErrorCode::kUnsupported, "the store does not have the source's acquisition")};
    };
  }
  SLM_ASSIGN(evidence::Verification verification, evidence::Verify(source, bundle->receipt, judge));
  ClaimBundle(*bundle, served, &verification);
  return verification;
}

Status Run(AppContext& context, const VerifyArgs& args) {
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(args.receipt, ignored);
  std::unique_ptr<Store> store;
  Hash256 receipt{};
  if (!is_file) {
    SLM_ASSIGN(store, Store::Open(context.store, {.create = false, .read_only = true}));
    SLM_ASSIGN(receipt, ResolveNode(*store, args.receipt));
  }
  SLM_ASSIGN(evidence::Verification verification,
             is_file ? VerifyBundle(context, args)
                     : evidence::Verify(SourceOver(*store), receipt, JudgeOver(*store)));
  for (const std::string& name : args.claims) {
    if (verification.Find(name) == nullptr) return Fail(ErrorCode::kUsage, "no claim is called " + name);
  }
  if (args.rerun) {
    // What cannot even be run again is a failed claim, not an end of the command.
    SLM_ASSIGN(const std::string temporary, TemporaryDirectory());
    auto steps = Rerun(*store, receipt, temporary);
    if (steps.has_value()) {
      AddRerunClaims(*steps, &verification);
      SLM_ASSIGN(const evidence::RuntimeBuild running, ThisBuild());
      evidence::ClaimRerunBuild(running, &verification);
    } else {
      const Error& error = steps.error();
      verification.claims.push_back(
          {"rerun", evidence::ClaimState::kFails, error.message, ToHex(receipt), error.CodeText()});
      verification.problems.push_back({error.CodeText(), ToHex(receipt), error.field, error.message});
    }
  }
  context.Print(context.json ? evidence::VerificationToJson(verification)
                             : evidence::VerificationToText(verification));
  context.exit_code = verification.Holds(args.claims) ? 0 : 1;
  return {};
}

}  // namespace

void RegisterVerify(Command& root, AppContext& context) {
  auto* args = context.Own<VerifyArgs>();
  Command& command = root.Add("verify", "Re-hash and recompute everything that a receipt claims");
  command.Option("receipt", &args->receipt, "Id of a promotion, or its first digits; or a bundle file", true);
  command.Option("--claim", &args->claims,
                 "A claim that must hold (L0 to L12, truth, artifact, ...); default: all that are claimed");
  command.Flag("--rerun", &args->rerun,
               "Convert, tokenize, render and run again from the stored bytes, and compare");
  command.Help(
      {.examples = {"slm verify 3f9c21", "slm verify 3f9c21 --claim L8 --rerun", "slm verify receipt.bundle"},
       .input = "a receipt of the store, and everything under it",
       .memory = "the artifact and one set of containers",
       .time = "one read of everything under the receipt; --rerun converts and observes again"});
  command.Run([args, &context] {
    const Status status = Run(context, *args);
    if (!status.has_value()) context.Report(status.error());
  });
}

}  // namespace slm::app
