// The golden container `tinyrustlm.golden.v1`: observations of one model over a suite of cases,
// from the oracle (modes source, reference, truth) or from a candidate under test.
//
// Golden is a read-only view: it owns the bytes it was given, or borrows a span that the caller
// keeps alive (a mapped file). Open checks everything: header, envelope hash and schema, every
// blob's range and SHA-256, every shape against its blob, all padding. After that nothing here
// fails. Golden may be read from any thread; GoldenWriter is used by one thread at a time.
// Format: docs/spec/golden.md (GLD-01, GLD-02, GLD-03, GLD-05). Errors: GLD-MAGIC, GLD-VERSION, GLD-ENVELOPE,
// GLD-SCHEMA, GLD-BLOB, GLD-PAD, GLD-SHAPE.
#ifndef SLM_GOLDEN_GOLDEN_H_
#define SLM_GOLDEN_GOLDEN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "codec/cbor.h"

namespace slm::golden {

inline constexpr std::string_view kSchema = "tinyrustlm.golden.v1";
inline constexpr uint32_t kMajor = 1;
inline constexpr uint32_t kMinor = 0;
inline constexpr uint64_t kAlignment = 64;
inline constexpr uint64_t kHeaderBytes = 64;
inline constexpr uint64_t kFooterBytes = 64;
// Bounds, checked before anything is allocated from them (GLD-02).
inline constexpr uint64_t kMaxFileBytes = uint64_t{1} << 40;
inline constexpr uint64_t kMaxEnvelopeBytes = uint64_t{64} << 20;
inline constexpr uint64_t kMaxEnvelopeItems = uint64_t{1} << 22;
inline constexpr uint64_t kMaxBlobs = uint64_t{1} << 20;
inline constexpr uint64_t kMaxCases = uint64_t{1} << 16;
inline constexpr uint64_t kMaxPositions = uint64_t{1} << 20;
inline constexpr uint64_t kMaxRank = 4;
inline constexpr uint64_t kMaxDimension = uint64_t{1} << 31;

// Who made the observations: the oracle in one of its modes (ORA-02), or a candidate.
enum class Mode : uint8_t { kSource, kReference, kTruth, kMixed, kCandidate };
enum class DType : uint8_t { kF32, kF64, kBf16, kU32, kU8, kBits };
// kRowMajor: dense. kPackedCausal: [n_heads, sum of (t + 1)], row t holds positions 0..t (OPS-06).
// kPackedBits: [rows, columns] of bits, each row padded to whole bytes, lowest bit first.
enum class Layout : uint8_t { kRowMajor, kPackedCausal, kPackedBits };
enum class InputKind : uint8_t { kUtf8, kBytes, kTokenIds, kMessages };
enum class CaseClass : uint8_t { kPublicMechanical, kPrivateBehaviorCommitment };

[[nodiscard]] std::string_view ModeName(Mode mode);
[[nodiscard]] std::string_view DTypeName(DType dtype);

// A half-open interval [begin, begin + count) of an axis.
struct Interval {
  uint64_t begin = 0;
  uint64_t count = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

// One array. Of a case: the first axis is the position (kPackedCausal: the second, packed).
struct Observation {
  std::string name;               // "layers.3.attn.q_rope"
  std::string role;               // the name without its layer: "attn.q_rope"
  std::optional<uint32_t> layer;  // 3
  std::vector<uint64_t> shape;    // of what is stored
  DType dtype = DType::kF32;
  Layout layout = Layout::kRowMajor;
  uint64_t blob = 0;                // index into blobs()
  std::optional<Interval> rows;     // positions kept, when not all (GLD-05)
  std::optional<Interval> columns;  // part of the last axis kept, when not all
  uint64_t full_columns = 0;        // length of the whole last axis; 0 unless `columns`
  std::string tolerance;            // class in the tolerance policy; the role when empty
  friend bool operator==(const Observation&, const Observation&) = default;
};

// One array outside the cases: a file that the oracle built, an effective tokenizer.
struct Attachment {
  std::string name;
  std::string media_type;
  uint64_t blob = 0;
  friend bool operator==(const Attachment&, const Attachment&) = default;
};

// How one reference cut a text into ids (L1). byte_offsets: [begin, end) in bytes of the text.
struct Tokenization {
  std::string
      reference;   // "published" (tokenizer.json as the library runs it) or "effective" (AutoTokenizer)
  std::string of;  // "input" or "rendered": which text
  bool add_special_tokens = true;
  std::vector<uint32_t> ids;
  std::vector<std::pair<uint32_t, uint32_t>> byte_offsets;
  std::vector<std::pair<uint32_t, uint32_t>> scalar_offsets;
  std::optional<Bytes> decoded;  // bytes of the ids decoded together, special tokens skipped
  friend bool operator==(const Tokenization&, const Tokenization&) = default;
};

// Bytes [begin, end) of a rendered prompt and who put them there (L2): `template`, `messages[2].content`,
// or the name of a variable.
struct OwnedInterval {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string owner;
  friend bool operator==(const OwnedInterval&, const OwnedInterval&) = default;
};

// What greedy generation gave after the prompt.
struct Generation {
  std::vector<uint32_t> tokens;  // raw ids, the stop token included
  std::vector<double> gaps;      // best logit minus second best at each step (TOL-04's m)
  Bytes text;                    // bytes of the tokens, special tokens skipped
  std::string stop_reason;       // "eos", "stop_id", "stop_string", "length", "context"
  friend bool operator==(const Generation&, const Generation&) = default;
};

struct Case {
  std::string case_id;
  CaseClass case_class = CaseClass::kPublicMechanical;
  InputKind input_kind = InputKind::kUtf8;
  // Text, bytes, ids as u32 little-endian, or the JSON text of the messages. Absent when sealed.
  std::optional<Bytes> input;
  std::optional<Hash256> input_commitment;  // exactly one of the two
  std::vector<uint32_t> ids;                // what the model saw; empty when sealed
  Interval positions;                       // positions.count == ids.size() unless sealed
  std::string mask = "causal";
  uint64_t max_new_tokens = 0;
  bool add_generation_prompt = false;  // messages only
  std::optional<Bytes> rendered;       // L2 reference
  // In order, covering `rendered`, neighbours of different owners; absent where it could not be shown.
  std::optional<std::vector<OwnedInterval>> ownership;
  std::vector<Tokenization> tokenizations;
  std::vector<Observation> observations;
  std::optional<Generation> generation;
  std::optional<Hash256> raw_output_commitment;  // RawOutputCommitment(*generation); alone when sealed

  [[nodiscard]] const Observation* Find(std::string_view name) const;  // null if absent
  friend bool operator==(const Case&, const Case&) = default;
};

// SHA-256 of the deterministic CBOR map {stop_reason, text, tokens}.
[[nodiscard]] Hash256 RawOutputCommitment(const Generation& generation);

// A field of the configuration that the pinned source built (CFG-03).
struct ConfigField {
  std::string name;
  cbor::Value value;   // floats: 8-byte string, IEEE 754 little-endian; lists of floats: array of such
  std::string origin;  // "config.json", "generation_config.json", "default", "derived"
  std::string file;   // of the source that supplies it, relative to the package root; empty for "config.json"
  uint64_t line = 0;  // 1-based; 0 where there is none
  friend bool operator==(const ConfigField&, const ConfigField&) = default;
};

struct SourceFile {
  Bytes path;  // exact bytes (ID-04)
  uint64_t size = 0;
  Hash256 sha256{};
  friend bool operator==(const SourceFile&, const SourceFile&) = default;
};

// A tensor's values as they were loaded (L3): SHA-256 over row-major little-endian values.
struct TensorHash {
  std::string name;
  std::string dtype;  // "f32", "bf16", "f16"
  std::vector<uint64_t> shape;
  Hash256 sha256{};
  friend bool operator==(const TensorHash&, const TensorHash&) = default;
};

struct Blob {
  uint64_t offset = 0;
  uint64_t size = 0;
  Hash256 sha256{};
  friend bool operator==(const Blob&, const Blob&) = default;
};

// Everything of the envelope except the blob table.
struct Content {
  Mode mode = Mode::kCandidate;
  // Roles: source, config, tokenizer, template, generator, artifact, runtime, backend. What the hash of
  // each covers is in docs/spec/golden.md. `generator` always stands: the hash of `generator`.
  std::map<std::string, Hash256, std::less<>> identities;
  cbor::Map generator;                          // the receipt: ORA-01, or the candidate's build and backend
  std::vector<SourceFile> source_files;         // sorted by path; empty for a candidate
  std::vector<ConfigField> effective_config;    // sorted by name
  std::vector<TensorHash> tensors;              // sorted by name
  cbor::Map tokenizer;                          // of the oracle: class and findings; empty for a candidate
  std::vector<Observation> model_observations;  // not of a case: "rope.inv_freq"
  std::vector<Attachment> attachments;
  std::vector<Case> cases;  // in the order of the cases file

  [[nodiscard]] const Case* FindCase(std::string_view case_id) const;
  [[nodiscard]] const ConfigField* FindConfig(std::string_view name) const;
};

class Golden {
 public:
  // Takes the bytes.
  [[nodiscard]] static Result<std::shared_ptr<const Golden>> FromBytes(Bytes bytes);
  // Borrows: `bytes` outlives the result.
  [[nodiscard]] static Result<std::shared_ptr<const Golden>> Open(ByteSpan bytes);

  [[nodiscard]] const Content& content() const { return content_; }
  [[nodiscard]] Mode mode() const { return content_.mode; }
  [[nodiscard]] const std::vector<Case>& cases() const { return content_.cases; }
  [[nodiscard]] const std::vector<Blob>& blobs() const { return blobs_; }
  [[nodiscard]] const Hash256& envelope_sha256() const { return envelope_sha256_; }
  // The bytes of blob `index`. REQUIRES: index < blobs().size().
  [[nodiscard]] ByteSpan BlobBytes(uint64_t index) const;
  // Null if there is no attachment of that name.
  [[nodiscard]] const Attachment* FindAttachment(std::string_view name) const;
  // Null if there is no observation of that name outside the cases.
  [[nodiscard]] const Observation* FindModelObservation(std::string_view name) const;

 private:
  Golden() = default;
  friend class Parser;
  Bytes owned_;
  ByteSpan bytes_;
  Content content_;
  std::vector<Blob> blobs_;
  Hash256 envelope_sha256_{};
};

// Values of an observation as float or double: a view of the blob where the host is little-endian
// and the bytes are aligned and of that type, else a decoded copy.
class F32Values {
 public:
  // REQUIRES: dtype is kF32 or kBf16. The view lives as long as both `golden` and this.
  F32Values(const Golden& golden, const Observation& observation);
  F32Values(F32Values&&) = default;
  F32Values(const F32Values&) = delete;
  [[nodiscard]] std::span<const float> values() const { return view_; }
  [[nodiscard]] bool is_view() const { return copy_.empty(); }

 private:
  std::vector<float> copy_;
  std::span<const float> view_;
};
class F64Values {
 public:
  // Any of kF32, kBf16 (converted exactly) and kF64.
  F64Values(const Golden& golden, const Observation& observation);
  F64Values(F64Values&&) = default;
  F64Values(const F64Values&) = delete;
  [[nodiscard]] std::span<const double> values() const { return view_; }

 private:
  std::vector<double> copy_;
  std::span<const double> view_;
};
[[nodiscard]] std::vector<uint32_t> U32Values(const Golden& golden, const Observation& observation);

// Number of elements of `shape`, or GLD-SHAPE if a dimension is 0 or a bound is passed.
[[nodiscard]] Result<uint64_t> ElementCount(std::span<const uint64_t> shape);
// Bytes that an array of this form fills, or GLD-SHAPE.
[[nodiscard]] Result<uint64_t> ByteCount(std::span<const uint64_t> shape, DType dtype, Layout layout);

// Writes a container in one pass: blobs go to the sink as they are added, the envelope at the end.
// The same calls give the same bytes. Blobs of equal contents are stored once.
class GoldenWriter {
 public:
  using Sink = std::function<Status(ByteSpan)>;
  explicit GoldenWriter(Sink sink);

  // Adds an array and returns its blob index. REQUIRES: bytes are not empty.
  [[nodiscard]] Result<uint64_t> AddBlob(ByteSpan bytes);
  // Adds values in little-endian form.
  [[nodiscard]] Result<uint64_t> AddF32(std::span<const float> values);
  [[nodiscard]] Result<uint64_t> AddU32(std::span<const uint32_t> values);
  // Checks `content` by the reader's own rules (so that what is written can be read), sets
  // identities["generator"], writes envelope and footer. Nothing may be added afterwards.
  [[nodiscard]] Status Finish(Content content);
  [[nodiscard]] uint64_t bytes_written() const { return offset_; }

 private:
  [[nodiscard]] Status Write(ByteSpan bytes);
  [[nodiscard]] Status Pad();
  Sink sink_;
  uint64_t offset_ = 0;
  bool finished_ = false;
  std::vector<Blob> blobs_;
  std::map<Hash256, uint64_t> by_hash_;
};

// The envelope as deterministic CBOR; exposed for tests and for the identities of nodes.
[[nodiscard]] cbor::Map EncodeContent(const Content& content, std::span<const Blob> blobs);

}  // namespace slm::golden

#endif  // SLM_GOLDEN_GOLDEN_H_
