#include "evidence/observe.h"

#include <memory>
#include <utility>

namespace slm::evidence {

Status Observe(const Candidate& candidate, const std::vector<CaseSpec>& cases, const ObserveOptions& options,
               const golden::GoldenWriter::Sink& sink) {
  SLM_ASSIGN(const std::unique_ptr<Observer> observer,
             Observer::Create(candidate.artifact_handle(), candidate.model(), options, sink));
  const auto run = [&](const CaseSpec& spec) -> Status {
    SLM_ASSIGN(CaseText text, candidate.text()->TextOf(spec));
    SLM_ASSIGN(const std::vector<uint32_t> ids, observer->Run(spec, std::move(text)));
    SLM_ASSIGN(const std::string visible, candidate.text()->VisibleBytes(ids));
    observer->Close(visible);
    return {};
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    if (Status status = run(cases[i]); !status)
      return Fail(ErrorOfCase(std::move(status).error(), cases[i], options.cases_name));
    if (options.on_progress) options.on_progress(i + 1, cases.size());
  }
  return observer->Finish();
}

}  // namespace slm::evidence
