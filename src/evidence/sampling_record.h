// Sampling options and traces as JSON: the `sampling` object of run records, `--trace`, and the
// same in the browser. Plain functions, any thread.
#ifndef SLM_EVIDENCE_SAMPLING_RECORD_H_
#define SLM_EVIDENCE_SAMPLING_RECORD_H_

#include "base/error.h"
#include "codec/cbor.h"
#include "codec/json.h"
#include "sampler/sampler.h"

namespace slm::evidence {

// Members that are absent keep the sampler's defaults (greedy). Errors: CASE-SCHEMA for a member that
// does not exist or is of the wrong type, with the byte offset and `sampling.NAME` in `field`. Ranges
// are checked by Sampler::Create.
[[nodiscard]] Result<SamplingOptions> ParseSampling(const json::Value& object);

// Every option as it applies, defaults included.
void WriteSampling(const SamplingOptions& options, json::Writer& out);
// The same for a run node; doubles as 8 and the penalty as 4 IEEE bytes, little-endian.
[[nodiscard]] cbor::Map SamplingToCbor(const SamplingOptions& options);

void WriteTrace(const SampleTrace& trace, json::Writer& out);

}  // namespace slm::evidence

#endif  // SLM_EVIDENCE_SAMPLING_RECORD_H_
