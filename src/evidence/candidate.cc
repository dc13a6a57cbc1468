#include "evidence/candidate.h"

namespace slm::evidence {

Result<std::shared_ptr<const Candidate>> Candidate::Open(const std::shared_ptr<const Artifact>& artifact) {
  auto candidate = std::shared_ptr<Candidate>(new Candidate());
  candidate->artifact_ = artifact;
  SLM_ASSIGN(candidate->model_, Model::Load(artifact));
  SLM_ASSIGN(candidate->text_, TextHalf::Open(*artifact));
  return candidate;
}

}  // namespace slm::evidence
