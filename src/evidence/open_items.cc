// What stays open after a verification, and what would settle it (LVL-05).
#include "evidence/verify.h"

namespace slm::evidence {
namespace {

// What no machine of one promotion can show about itself.
constexpr OpenItemText kAlways[] = {
    {"that these files are what the publisher released: name and revision are as declared",
     "acquire the pinned revision from the publisher's hub and compare the acquisition's hashes"},
    {"any backend but the one named: GPUs, browsers (Safari among them) and ARM processors did not run",
     "slm promote by a build of such a backend on that hardware, against the same evidence; this version has "
     "none"},
    {"that the oracle gives this evidence on another kind of processor",
     "oracle/check.sh with this source there; its verdict names the criterion"},
};

constexpr OpenItemText kObservedByNamed = {"that the named executable made these observations",
                                           "slm verify --rerun by that executable"};

// A claim that nothing made, and what would make it.
std::string_view SettlesNotClaimed(std::string_view claim) {
  if (claim == "source" || claim == "license" || claim == "conflicts")
    return "slm verify by a program that reads the source and carries its license tables";
  if (claim == "profile") return "slm verify by a program that carries this family profile";
  if (claim == "tokenizer") return "slm verify by a program that follows this reference";
  return "a promotion whose suite and evidence run it";
}

}  // namespace

std::vector<OpenItem> OpenItems(const Verification& verification) {
  std::vector<OpenItem> items;
  for (const OpenItemText& text : kAlways)
    items.push_back({std::string(text.what), std::string(text.settled_by)});
  for (const Claim& claim : verification.claims) {
    if (claim.state == ClaimState::kNotClaimed && claim.name == kRerunBuildClaim) {
      items.push_back({std::string(kObservedByNamed.what) + " (" + claim.detail + ")",
                       std::string(kObservedByNamed.settled_by)});
    } else if (claim.state == ClaimState::kNotClaimed) {
      items.push_back(
          {claim.name + ": not claimed (" + claim.detail + ")", std::string(SettlesNotClaimed(claim.name))});
    } else if (claim.state == ClaimState::kUnstable) {
      items.push_back({claim.name + ": unstable (" + claim.detail + ")",
                       "evidence of higher precision for the cases named, or a suite without them"});
    }
  }
  const Claim* rerun = verification.Find(kRerunBuildClaim);
  if (rerun == nullptr) {
    items.push_back({std::string(kObservedByNamed.what), std::string(kObservedByNamed.settled_by)});
  }
  return items;
}

}  // namespace slm::evidence
