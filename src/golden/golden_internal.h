// Shared by reader and writer of the golden container; not for other modules.
#ifndef SLM_GOLDEN_GOLDEN_INTERNAL_H_
#define SLM_GOLDEN_GOLDEN_INTERNAL_H_

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "golden/golden.h"

namespace slm::golden {

inline constexpr std::array<uint8_t, 8> kMagic = {0x89, 'S', 'L', 'M', 'G', 'L', 'D', '\n'};

struct Envelope {
  Content content;
  std::vector<Blob> blobs;
};

// Schema of docs/spec/golden.md section 2 on. Errors: GLD-SCHEMA with the schema code as cause and
// the path of the key as field; GLD-VERSION for a required feature.
[[nodiscard]] Result<Envelope> ParseEnvelope(const cbor::Map& map);

// Everything that relates the parts: identities, orders, sealed cases, commitments, shapes, blobs.
// Errors: GLD-SCHEMA, GLD-SHAPE, GLD-BLOB.
[[nodiscard]] Status CheckContent(const Content& content, std::span<const Blob> blobs);

// Shape, layout and selections of one observation. `n_positions`: of its case; absent outside cases.
[[nodiscard]] Status CheckObservation(const Observation& observation, std::optional<uint64_t> n_positions,
                                      std::span<const Blob> blobs);

[[nodiscard]] std::string_view LayoutName(Layout layout);
[[nodiscard]] std::string_view InputKindName(InputKind kind);
[[nodiscard]] std::string_view CaseClassName(CaseClass case_class);
// Nothing for a text that is not a name.
[[nodiscard]] std::optional<Mode> ModeOf(std::string_view name);
[[nodiscard]] std::optional<DType> DTypeOf(std::string_view name);
[[nodiscard]] std::optional<Layout> LayoutOf(std::string_view name);
[[nodiscard]] std::optional<InputKind> InputKindOf(std::string_view name);
[[nodiscard]] std::optional<CaseClass> CaseClassOf(std::string_view name);

[[nodiscard]] Bytes PackU32(std::span<const uint32_t> values);
[[nodiscard]] cbor::Array EncodeSourceFiles(const Content& content);
// [[name, value], ...]: what the identity `config` is the hash of.
[[nodiscard]] cbor::Array EncodeConfigValues(const Content& content);

[[nodiscard]] inline std::unexpected<Error> SchemaError(std::string message, std::string_view field) {
  return Fail(MakeError(ErrorCode::kGldSchema, std::move(message)).Field(field));
}

}  // namespace slm::golden

#endif  // SLM_GOLDEN_GOLDEN_INTERNAL_H_
