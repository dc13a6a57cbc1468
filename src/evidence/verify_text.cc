// What `slm verify` prints: one line for each claim, "not claimed" included.
#include <algorithm>
#include <span>

#include "base/escape.h"
#include "codec/json.h"
#include "evidence/verify.h"

namespace slm::evidence {
namespace {

std::string Padded(std::string_view text, size_t width) {
  std::string out(text);
  if (out.size() < width) out.append(width - out.size(), ' ');
  return out + " ";
}

struct Tally {
  uint64_t holds = 0, fails = 0, unstable = 0, not_claimed = 0;
};
Tally Count(const Verification& verification) {
  Tally tally;
  for (const Claim& claim : verification.claims) {
    switch (claim.state) {
      case ClaimState::kHolds:
        ++tally.holds;
        break;
      case ClaimState::kFails:
        ++tally.fails;
        break;
      case ClaimState::kUnstable:
        ++tally.unstable;
        break;
      case ClaimState::kNotClaimed:
        ++tally.not_claimed;
        break;
    }
  }
  return tally;
}

}  // namespace

std::string VerificationToText(const Verification& verification) {
  std::string out = "receipt " + ToHex(verification.receipt) + "\n";
  size_t width = 10;
  for (const Claim& claim : verification.claims) width = std::max(width, claim.name.size());
  for (const Claim& claim : verification.claims) {
    out += "  " + Padded(claim.name, width) + Padded(ClaimStateText(claim.state), 12) +
           Padded(claim.node.empty() ? "-" : claim.node.substr(0, 12), 13);
    if (!claim.code.empty()) out += claim.code + ": ";
    out += EscapeLine(claim.detail) + "\n";
  }
  for (const Problem& problem : verification.problems) {
    out += "  problem " + problem.code + " at " + problem.node.substr(0, 12) +
           (problem.field.empty() ? "" : " (" + EscapeLine(problem.field) + ")") + ": " +
           EscapeLine(problem.what) + "\n";
  }
  for (const OpenItem& item : OpenItems(verification)) {
    out += "  open: " + EscapeLine(item.what) + "; settled by: " + item.settled_by + "\n";
  }
  out += "  " + std::string(kTrustedWithoutProof) + "\n";
  const Tally tally = Count(verification);
  out += "result: " + std::to_string(tally.holds) + " claims hold, " + std::to_string(tally.fails) +
         " fail, " + std::to_string(tally.unstable) + " unstable, " + std::to_string(tally.not_claimed) +
         " not claimed\n";
  return out;
}

std::string VerificationToJson(const Verification& verification, uint64_t max_problems) {
  json::Writer out(true);
  out.BeginObject();
  out.Key("receipt").String(ToHex(verification.receipt));
  out.Key("holds").Bool(verification.Holds({}));
  out.Key("nodes").Uint(verification.n_nodes);
  out.Key("blobs").Uint(verification.n_blobs);
  out.Key("bytes").Uint(verification.n_bytes);
  out.Key("claims").BeginArray();
  for (const Claim& claim : verification.claims) {
    out.BeginObject();
    out.Key("claim").String(claim.name);
    out.Key("state").String(ClaimStateName(claim.state));
    out.Key("node").String(claim.node);
    if (!claim.code.empty()) out.Key("code").String(claim.code);
    out.Key("detail").String(claim.detail);
    out.EndObject();
  }
  out.EndArray();
  out.Key("n_problems").Uint(verification.problems.size());
  out.Key("problems").BeginArray();
  for (const Problem& problem : std::span(verification.problems)
                                    .first(std::min<uint64_t>(max_problems, verification.problems.size()))) {
    out.BeginObject();
    out.Key("code").String(problem.code);
    out.Key("node").String(problem.node);
    out.Key("field").String(problem.field);
    out.Key("message").String(problem.what);
    out.EndObject();
  }
  out.EndArray();
  out.Key("open_items").BeginArray();
  for (const OpenItem& item : OpenItems(verification)) {
    out.BeginObject();
    out.Key("what").String(item.what);
    out.Key("settled_by").String(item.settled_by);
    out.EndObject();
  }
  out.EndArray();
  out.Key("trusted_without_proof").String(kTrustedWithoutProof);
  out.EndObject();
  return out.Take() + "\n";
}

}  // namespace slm::evidence
