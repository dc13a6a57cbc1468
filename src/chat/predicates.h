// Where the text of a context decides what a template does (TPL-07): a dataflow analysis over the IR.
//
// Every value is followed by the paths of the context that it may come from (messages[].content), through
// variables, namespaces, loops, macros and their arguments, captured blocks, filters and methods. Text
// becomes a decision at few kinds of operation: a search or a cut (in, split, startswith, replace, ...), a
// comparison, the truth of a text, an iteration over it, its length, an access by it. Each such operation is
// declared where it stands, whether or not something then depends on it; what is left over is text that is
// only written.
//
// Not content: roles; which messages, tools, parts and keys there are; the type of a value. A variable beside
// messages, tools and documents is a setting of the caller's: to search in it is declared, to compare the
// whole of it or to ask whether it is true is not.
#ifndef SLM_CHAT_PREDICATES_H_
#define SLM_CHAT_PREDICATES_H_

#include <vector>

#include "base/error.h"
#include "chat/program.h"

namespace slm::chat {

// In order of place, construct, literal, subject; each once. REQUIRES: IsWellFormed(program).
// Errors: TPL-BOUND where variables depend on each other in a chain too long to follow.
[[nodiscard]] Result<std::vector<ContentPredicate>> FindContentPredicates(const Program& program);

}  // namespace slm::chat

#endif  // SLM_CHAT_PREDICATES_H_
