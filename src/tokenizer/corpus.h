// Neutral texts that touch every class of TOK-13 but the very large and the ill-formed ones.
// Deterministic; any thread.
#ifndef SLM_TOKENIZER_CORPUS_H_
#define SLM_TOKENIZER_CORPUS_H_

#include <string>
#include <vector>

namespace slm::tokenizer {

// The 25 code points with the property White_Space.
[[nodiscard]] const std::vector<char32_t>& WhiteSpaceScalars();

[[nodiscard]] std::vector<std::string> MechanicalCorpus();

}  // namespace slm::tokenizer

#endif  // SLM_TOKENIZER_CORPUS_H_
