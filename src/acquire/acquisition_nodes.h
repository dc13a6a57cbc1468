// The nodes of an acquisition, built from its parts and read back (docs/spec/acquisition.md).
#ifndef SLM_ACQUIRE_ACQUISITION_NODES_H_
#define SLM_ACQUIRE_ACQUISITION_NODES_H_

#include <span>
#include <string>
#include <vector>

#include "acquire/acquisition.h"
#include "acquire/file_stream.h"
#include "acquire/license.h"
#include "acquire/profile.h"
#include "identity/node.h"

namespace slm::acquire {

[[nodiscard]] Node SourceFileNode(const StreamedFile& file);

// REQUIRES: files ascending by path, each with its node.
[[nodiscard]] Node SourceTreeNode(std::span<const SourceFile> files);

struct LicenseOutcome {
  std::string spdx;
  std::string redistribution;
  bool attribution = false;
  std::string duties;
  std::string settled_by;  // "lists", "decision", "accepted-conflict"
  std::vector<LicenseEvidence> evidence;
  std::vector<Edge> edges;  // evidence, decision, conflict
};
[[nodiscard]] Node LicenseNode(const LicenseOutcome& outcome, const LicenseTables& tables);

// Everything of `acquisition` but its id.
[[nodiscard]] Node AcquisitionNode(const Acquisition& acquisition, const Profile& profile);

}  // namespace slm::acquire

#endif  // SLM_ACQUIRE_ACQUISITION_NODES_H_
