// slm verify RECEIPT [--rerun] [--claim NAME ...]
#include "evidence/verify.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <span>

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

// What cannot even be run again is a failed claim, not an end of the command.
void ClaimNoRerun(const Error& error, evidence::Verification* verification) {
  const std::string receipt = ToHex(verification->receipt);
  verification->claims.push_back(
      {"rerun", evidence::ClaimState::kFails, error.message, receipt, error.CodeText()});
  verification->problems.push_back({error.CodeText(), receipt, error.field, error.message});
}

Status RunAgain(const Store& store, evidence::Verification* verification) {
  SLM_ASSIGN(const std::string temporary, TemporaryDirectory());
  const auto steps = Rerun(store, verification->receipt, temporary);
  if (!steps.has_value()) {
    ClaimNoRerun(steps.error(), verification);
    return {};
  }
  AddRerunClaims(*steps, verification);
  SLM_ASSIGN(const evidence::RuntimeBuild running, ThisBuild());
  evidence::ClaimRerunBuild(running, verification);
  return {};
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

// A store for the time of this command, with what a bundle and the user's store hold together: acquisition
// and conversion read files, not memory.
class ScratchStore {
 public:
  ScratchStore() = default;
  ~ScratchStore() {
    store_.reset();
    std::error_code ignored;
    if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
  }
  ScratchStore(const ScratchStore&) = delete;
  ScratchStore& operator=(const ScratchStore&) = delete;

  // Copies everything below `root`. Errors: those of the readers and of Store.
  Result<const Store*> With(const evidence::ObjectSource& source, const Hash256& root) {
    if (store_ == nullptr) {
      SLM_ASSIGN(const std::string temporary, TemporaryDirectory());
      directory_ = temporary + "/slm-verify-XXXXXX";
      if (mkdtemp(directory_.data()) == nullptr) {
        const std::string fault = std::strerror(errno);
        directory_.clear();
        return Fail(
            MakeError(ErrorCode::kIo, "cannot make a folder for temporary files: " + fault).In(temporary));
      }
      SLM_ASSIGN(store_, Store::Open(directory_ + "/store"));
    }
    SLM_TRY(evidence::CopyGraph(source, root, SinkOver(*store_)));
    SLM_TRY(store_->AppendLog("bundle", std::span(&root, 1)));
    return store_.get();
  }

 private:
  std::string directory_;
  std::unique_ptr<Store> store_;
};

// A bundle's objects; what it leaves out comes from the store, where there is one. License and conflicts are
// not claimed where neither has the source's files.
Result<evidence::Verification> VerifyBundle(const AppContext& context, const VerifyArgs& args) {
  SLM_ASSIGN(const auto file, MappedFile::Open(args.receipt));
  auto bundle = evidence::DecodeBundle(file->bytes());
  if (!bundle.has_value()) {
    Error error = std::move(bundle).error().In(args.receipt);
    error.message = "this file is no bundle of a receipt: " + error.message;
    return Fail(std::move(error));
  }
  std::set<Hash256> served;
  evidence::ObjectSource source = Watched(bundle->objects.Source(), &served);
  std::unique_ptr<Store> store;
  std::error_code ignored;
  if (std::filesystem::is_directory(context.store, ignored)) {
    SLM_ASSIGN(store, Store::Open(context.store, {.create = false, .read_only = true}));
    source = evidence::Overlay(std::move(source), SourceOver(*store));
  }
  ScratchStore scratch;
  const auto judge = [&](const Hash256& acquisition) -> std::optional<evidence::SourceFault> {
    if (store != nullptr && store->GetNode(acquisition)) return JudgeOver(*store)(acquisition);
    const auto copied = scratch.With(source, acquisition);
    if (copied.has_value()) return JudgeOver(**copied)(acquisition);
    return evidence::SourceFault{
        "source",
        MakeError(ErrorCode::kUnsupported,
                  "neither the bundle nor the store has all of the source: " + copied.error().message)};
  };
  SLM_ASSIGN(evidence::Verification verification, evidence::Verify(source, bundle->receipt, judge));
  ClaimBundle(*bundle, served, &verification);
  if (args.rerun) {
    auto copied = scratch.With(source, bundle->receipt);
    if (copied.has_value()) {
      SLM_TRY(RunAgain(**copied, &verification));
    } else {
      ClaimNoRerun(copied.error(), &verification);
    }
  }
  return verification;
}

Result<evidence::Verification> VerifyStored(const AppContext& context, const VerifyArgs& args) {
  SLM_ASSIGN(const auto store, Store::Open(context.store, {.create = false, .read_only = true}));
  SLM_ASSIGN(const Hash256 receipt, ResolveNode(*store, args.receipt));
  SLM_ASSIGN(evidence::Verification verification,
             evidence::Verify(SourceOver(*store), receipt, JudgeOver(*store)));
  if (args.rerun) SLM_TRY(RunAgain(*store, &verification));
  return verification;
}

Status Run(AppContext& context, const VerifyArgs& args) {
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(args.receipt, ignored);
  SLM_ASSIGN(const evidence::Verification verification,
             is_file ? VerifyBundle(context, args) : VerifyStored(context, args));
  for (const std::string& name : args.claims) {
    if (verification.Find(name) == nullptr) return Fail(ErrorCode::kUsage, "no claim is called " + name);
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
  command.Help({.examples = {"slm verify 3f9c21", "slm verify 3f9c21 --claim L8 --rerun",
                             "slm verify receipt.bundle --rerun"},
                .input = "a receipt of the store, and everything under it",
                .memory = "the artifact and one set of containers",
                .time = "one read of everything under the receipt; --rerun converts and observes again"});
  command.Run([args, &context] {
    const Status status = Run(context, *args);
    if (!status.has_value()) context.Report(status.error());
  });
}

}  // namespace slm::app
