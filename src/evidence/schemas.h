// The form of every node on the promotion path: keys, their kinds, and the children each type needs
// (docs/spec/promotion.md). Stateless.
#ifndef SLM_EVIDENCE_SCHEMAS_H_
#define SLM_EVIDENCE_SCHEMAS_H_

#include <string_view>

#include "base/error.h"
#include "identity/node.h"

namespace slm::evidence {

// Checks type, schema text, keys and edges. Errors: GRAPH-SCHEMA (a key missing, unknown or of the wrong
// kind, an unknown role), GRAPH-MISSING-CHILD (too few children of a role); the field names the key or role.
[[nodiscard]] Status CheckNodeForm(const Node& node);

// Whether `child_type` may stand under `role` of `node`.
[[nodiscard]] bool ChildTypeFits(const Node& node, std::string_view role, std::string_view child_type);

}  // namespace slm::evidence

#endif  // SLM_EVIDENCE_SCHEMAS_H_
