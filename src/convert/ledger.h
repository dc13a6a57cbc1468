// The ledger: which source tensor becomes which tensor of the artifact, and why (MAP-01, MAP-02).
// Internal to src/convert.
#ifndef SLM_CONVERT_LEDGER_H_
#define SLM_CONVERT_LEDGER_H_

#include <string>
#include <vector>

#include "base/error.h"
#include "convert/weights.h"
#include "model/llama.h"

namespace slm::convert {

struct LedgerRow {
  TensorSpec spec;
  std::vector<const SourceTensor*> sources;  // the first one gives the values
  DType dtype = DType::kF32;
};

struct Omission {
  const SourceTensor* source = nullptr;
  std::string reason;
};

struct Ledger {
  std::vector<LedgerRow> rows;  // execution order, aliases included
  std::vector<Omission> omitted;
};

// Errors: MAP-MISSING, -SHAPE, -DTYPE, -DUPLICATE, -TIED, -LAYER, -UNCONSUMED, CFG-VOCAB-SHAPE,
// CFG-TIED, CFG-ROPE; field = the source tensor. Pointers are into `weights`. `tied_by_statement`: a person
// said that the tied flag holds, so a separate output tensor that differs is left out.
[[nodiscard]] Result<Ledger> BuildLedger(const EffectiveConfig& config, const SourceTree& tree,
                                         const Weights& weights, bool tied_by_statement = false);

}  // namespace slm::convert

#endif  // SLM_CONVERT_LEDGER_H_
