// Runs a candidate over a suite and writes what it gave into a golden container (mode "candidate").
//
// The container holds the same arrays and slices as a reference container asks for, so that the two
// align. It is a function of artifact, suite, slices and kernel alone: another build that computes the
// same writes the same bytes. One session serves the whole suite and is cut back between cases, so that
// nothing may survive in its cache. One thread.
#ifndef SLM_EVIDENCE_OBSERVER_H_
#define SLM_EVIDENCE_OBSERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "evidence/case_text.h"
#include "evidence/cases_file.h"
#include "golden/golden.h"
#include "runtime/bound_model.h"
#include "runtime/session.h"
#include "slm_file/artifact.h"

namespace slm::evidence {

struct ObserveOptions {
  Kernel kernel = Kernel::kScalar;
  std::string backend = "native-scalar";
  // Names and slices to keep, case by case; null: `taps`, every position, all logits.
  const golden::Golden* like = nullptr;
  bool all_taps = true;
  std::vector<std::string> taps;  // names; only without `like` and all_taps
  uint64_t top_k = 64;            // without `like`
  uint64_t prefill_chunk = 0;     // positions fed at a time; 0: all. The container is the same.
  Hash256 cases_sha256{};
  std::string cases_name;  // of the cases file, for errors; may be empty
  std::function<void(uint64_t done, uint64_t total)> on_progress;  // cases; may be empty
};

// One observation, case by case, for a caller that has the text half elsewhere. Each case is run, then closed
// with the visible bytes of the ids that it generated.
class Observer {
 public:
  // `options.like` and what the sink writes to outlive it; on_progress and cases_name are not used. Errors:
  // RUN-TAP, those of Session::Create.
  [[nodiscard]] static Result<std::unique_ptr<Observer>> Create(std::shared_ptr<const Artifact> artifact,
                                                                std::shared_ptr<const Model> model,
                                                                ObserveOptions options,
                                                                golden::GoldenWriter::Sink sink);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  // The ids that the case generated. REQUIRES: no case is open. Errors: those of the session and of the sink.
  [[nodiscard]] Result<std::vector<uint32_t>> Run(const CaseSpec& spec, CaseText text);
  // REQUIRES: a case is open.
  void Close(std::string_view visible);
  // Writes what is left of the container. Call once, last.
  [[nodiscard]] Status Finish();

 private:
  class State;
  explicit Observer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Values of every source tensor as the artifact holds them (L3): layouts undone, padding left out.
[[nodiscard]] Result<std::vector<golden::TensorHash>> TensorHashesOf(const Artifact& artifact);
// The fields that the pinned source builds too (docs/spec/family-llama.md, column oracle).
[[nodiscard]] std::vector<golden::ConfigField> ConfigFieldsOf(const cbor::Map& config);
// SHA-256 over the artifact's list of source files, as golden.md defines the identity `source`.
[[nodiscard]] Result<Hash256> SourceIdentityOf(const Artifact& artifact);

}  // namespace slm::evidence

#endif  // SLM_EVIDENCE_OBSERVER_H_
