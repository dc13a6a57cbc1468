// The profile files that the program carries, byte for byte as they stand under profiles/.
#ifndef SLM_ACQUIRE_EMBEDDED_H_
#define SLM_ACQUIRE_EMBEDDED_H_

#include <string_view>

namespace slm::acquire {

[[nodiscard]] std::string_view EmbeddedDirectoryProfile();  // profiles/acquire/hf-directory-v2.json
[[nodiscard]] std::string_view EmbeddedLicenseCards();      // profiles/licenses/cards-v1.json
[[nodiscard]] std::string_view EmbeddedLicenseTexts();      // profiles/licenses/texts-v1.json
[[nodiscard]] std::string_view EmbeddedSpdxList();          // profiles/licenses/spdx-v1.json

}  // namespace slm::acquire

#endif  // SLM_ACQUIRE_EMBEDDED_H_
