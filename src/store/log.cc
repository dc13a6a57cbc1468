#include "store/log.h"

#include <algorithm>
#include <charconv>

#include "codec/cbor.h"
#include "codec/crc32c.h"
#include "codec/sha256.h"

namespace slm::store {
namespace {

constexpr size_t kHeadBytes = 40;  // length, crc, previous hash
constexpr uint64_t kMaxPayloadBytes = uint64_t{16} << 20;
constexpr uint64_t kMaxLogBytes = uint64_t{1} << 30;
constexpr uint8_t kMapOfThree = 0xA3;  // every payload starts with it

uint32_t RecordCrc(ByteSpan record) {
  Bytes covered(record.begin(), record.begin() + 4);
  covered.insert(covered.end(), record.begin() + 8, record.end());
  return Crc32c(covered);
}

// The whole record at the start of `bytes`, if its length and checksum are good.
std::optional<ByteSpan> WholeRecord(ByteSpan bytes) {
  if (bytes.size() <= kHeadBytes || bytes[kHeadBytes] != kMapOfThree) return std::nullopt;
  const uint64_t length = LoadLe<uint32_t>(bytes.data());
  if (length > kMaxPayloadBytes || length > bytes.size() - kHeadBytes) return std::nullopt;
  const ByteSpan record = bytes.first(kHeadBytes + static_cast<size_t>(length));
  if (RecordCrc(record) != LoadLe<uint32_t>(bytes.data() + 4)) return std::nullopt;
  return record;
}

bool HasLaterRecord(ByteSpan bytes) {
  for (size_t at = 1; at + kHeadBytes < bytes.size(); ++at) {
    if (WholeRecord(bytes.subspan(at))) return true;
  }
  return false;
}

Hash256 LastHash(const LogState& state) {
  return state.record_hashes.empty() ? Hash256{} : state.record_hashes.back();
}

Result<LogRecord> DecodePayload(ByteSpan payload) {
  SLM_ASSIGN(const cbor::Value value, cbor::Decode(payload));
  const cbor::Map* map = value.AsMap();
  if (map == nullptr) return Fail(ErrorCode::kSchemaType, "a record is a map");
  cbor::Reader reader(*map);
  LogRecord record{};
  SLM_ASSIGN(record.seq, reader.Uint("seq"));
  SLM_ASSIGN(record.kind, reader.Text("kind"));
  SLM_ASSIGN(const cbor::Array* nodes, reader.ArrayOf("nodes"));
  SLM_TRY(reader.Finish());
  for (const cbor::Value& node : *nodes) {
    const uint8_t* bytes = node.AsHash();
    if (bytes == nullptr)
      return Fail(MakeError(ErrorCode::kSchemaType, "a node id has 32 bytes").Field("nodes"));
    std::copy_n(bytes, sizeof(Hash256), record.nodes.emplace_back().begin());
  }
  return record;
}

// Takes one whole record into `state`, or says what is wrong with it.
Status TakeRecord(ByteSpan record, const std::string& path, LogState* state) {
  const uint64_t offset = state->n_good_bytes;
  auto decoded = DecodePayload(record.subspan(kHeadBytes));
  if (!decoded.has_value()) {
    Error error = MakeError(ErrorCode::kLogCorrupt, "a record of the wrong form: " + decoded.error().message);
    error.cause = decoded.error().code;
    return Fail(std::move(error).At(offset).In(path));
  }
  const Hash256 previous = LastHash(*state);
  const bool follows = std::equal(previous.begin(), previous.end(), record.begin() + 8);
  if (!follows || decoded->seq != state->records.size() + 1) {
    return Fail(
        MakeError(ErrorCode::kLogChain, "the record does not follow the one before it").At(offset).In(path));
  }
  decoded->byte_offset = offset;
  state->records.push_back(*std::move(decoded));
  state->record_hashes.push_back(Sha256Of(record));
  state->n_good_bytes += record.size();
  return {};
}

struct Head {
  uint64_t seq;
  Hash256 record_hash;
};

std::string HeadText(const LogState& state) {
  return std::to_string(state.records.size()) + " " + ToHex(LastHash(state)) + "\n";
}

std::optional<Head> ParseHead(std::string_view text) {
  Head head{};
  const auto number = std::from_chars(text.data(), text.data() + text.size(), head.seq);
  if (number.ec != std::errc() || head.seq == 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(number.ptr - text.data()));
  if (text.size() != 66 || text.front() != ' ' || text.back() != '\n') return std::nullopt;
  if (!HashFromHex(text.substr(1, 64), &head.record_hash)) return std::nullopt;
  return head;
}

// The text of refs/head; nothing where it is absent, as before the first record is durable.
Result<std::optional<Bytes>> ReadHead(Vfs& vfs, const Layout& layout) {
  SLM_ASSIGN(const FileInfo info, vfs.Stat(layout.Head()));
  if (info.kind == FileKind::kNone) return std::optional<Bytes>();
  SLM_ASSIGN(Bytes text, ReadWholeFile(vfs, layout.Head(), 4096));
  return std::optional(std::move(text));
}

// Compares the log with the head that was read before it.
std::optional<Error> HeadDamage(const std::optional<Bytes>& text, const Layout& layout,
                                const LogState& state) {
  if (!text) return std::nullopt;
  const auto head = ParseHead(AsText(*text));
  if (!head) return MakeError(ErrorCode::kFsckRef, "not the form of a head").In(layout.Head());
  if (head->seq > state.records.size()) {
    const std::string name = "record " + std::to_string(head->seq) + ", which was durable,";
    if (state.n_torn_bytes > 0) {
      return MakeError(ErrorCode::kLogCorrupt, name + " is damaged").At(state.n_good_bytes).In(layout.Log());
    }
    return MakeError(ErrorCode::kFsckRef, name + " is not in the log").In(layout.Head());
  }
  if (state.record_hashes[static_cast<size_t>(head->seq) - 1] != head->record_hash) {
    return MakeError(ErrorCode::kFsckRef, "the log holds another record " + std::to_string(head->seq))
        .In(layout.Head());
  }
  return std::nullopt;
}

// Records that the head does not know of. A writer brings the head up to the log before it appends, so
// a crash leaves one at most.
uint64_t Lag(const std::optional<Bytes>& text, const LogState& state) {
  const auto head = text ? ParseHead(AsText(*text)) : std::nullopt;
  const uint64_t seq = head ? head->seq : 0;
  return seq >= state.records.size() ? 0 : state.records.size() - seq;
}

// A head that is lost, or that someone has put back, no longer shows that a log was cut.
Result<std::optional<Error>> LagDamage(Vfs& vfs, const Layout& layout, const std::optional<Bytes>& before,
                                       const LogState& state) {
  if (Lag(before, state) < 2) return std::optional<Error>();
  // Others may have appended since it was read: what stands there now is at least as new as the log.
  SLM_ASSIGN(const std::optional<Bytes> now, ReadHead(vfs, layout));
  const uint64_t lag = Lag(now, state);
  if (lag < 2) return std::optional<Error>();
  return std::optional(
      MakeError(ErrorCode::kFsckRef,
                (now ? "the head is " + std::to_string(lag) + " records behind the log"
                     : "the head is lost, and the log holds " + std::to_string(lag) + " records"))
          .In(layout.Head()));
}

Result<Bytes> ReadTail(Vfs& vfs, const Layout& layout, const LogState& state) {
  SLM_ASSIGN(const FileInfo info, vfs.Stat(layout.Log()));
  if (info.kind == FileKind::kNone) return Bytes();
  SLM_ASSIGN(const auto file, vfs.OpenRead(layout.Log()));
  if (file->size() > kMaxLogBytes)
    return Fail(MakeError(ErrorCode::kLimit, "a log above 1 GiB").In(layout.Log()));
  if (file->size() <= state.n_good_bytes) return Bytes();
  Bytes tail(static_cast<size_t>(file->size() - state.n_good_bytes));
  SLM_ASSIGN(const size_t n_read, file->ReadAt(state.n_good_bytes, tail));
  tail.resize(n_read);
  return tail;
}

}  // namespace

Bytes EncodeRecord(const LogState& state, std::string_view kind, std::span<const Hash256> nodes) {
  cbor::Array ids;
  for (const Hash256& id : nodes) ids.emplace_back(id);
  const Bytes payload =
      cbor::Encode(cbor::Map{{"seq", state.records.size() + 1}, {"kind", kind}, {"nodes", std::move(ids)}});
  Bytes record;
  AppendLe<uint32_t>(&record, static_cast<uint32_t>(payload.size()));
  AppendLe<uint32_t>(&record, 0);
  const Hash256 previous = LastHash(state);
  record.insert(record.end(), previous.begin(), previous.end());
  record.insert(record.end(), payload.begin(), payload.end());
  StoreLe<uint32_t>(record.data() + 4, RecordCrc(record));
  return record;
}

Status ReadLogFrom(Vfs& vfs, const Layout& layout, LogState* state) {
  // The head first: a record appended in between is then in the log and not yet in the head.
  SLM_ASSIGN(const std::optional<Bytes> head, ReadHead(vfs, layout));
  SLM_ASSIGN(const Bytes tail, ReadTail(vfs, layout, *state));
  ByteSpan rest = tail;
  state->n_torn_bytes = 0;
  while (!rest.empty() && !state->damage) {
    const auto record = WholeRecord(rest);
    if (!record) {
      if (HasLaterRecord(rest)) {
        state->damage = MakeError(ErrorCode::kLogCorrupt, "a damaged record with a good one after it")
                            .At(state->n_good_bytes)
                            .In(layout.Log());
      }
      state->n_torn_bytes = rest.size();
      break;
    }
    const Status taken = TakeRecord(*record, layout.Log(), state);
    if (!taken.has_value()) state->damage = taken.error();
    rest = rest.subspan(record->size());
  }
  if (!state->damage) {
    state->damage = HeadDamage(head, layout, *state);
    state->head_is_lost = state->damage && !ParseHead(AsText(*head));
    state->head_lags = Lag(head, *state) > 0;
  }
  if (!state->damage) {
    SLM_ASSIGN(state->damage, LagDamage(vfs, layout, head, *state));
    state->head_is_lost = state->damage.has_value();
  }
  return {};
}

Status RecoverTail(Vfs& vfs, const Layout& layout, Publisher* publisher, LogState* state) {
  if (state->n_torn_bytes == 0) return {};
  SLM_TRY(publisher->Truncate(layout.Log(), state->n_good_bytes));
  state->n_torn_bytes = 0;
  return AppendRecord(vfs, layout, publisher, state, kRecoveredKind, {});
}

Status AppendRecord(Vfs& vfs, const Layout& layout, Publisher* publisher, LogState* state,
                    std::string_view kind, std::span<const Hash256> nodes) {
  SLM_TRY(publisher->CheckUsable());
  if (state->head_lags) SLM_TRY(publisher->ReplaceFile(layout.Head(), AsBytes(HeadText(*state))));
  state->head_lags = false;
  const Bytes record = EncodeRecord(*state, kind, nodes);
  {
    SLM_ASSIGN(const auto file, vfs.OpenAppend(layout.Log()));
    SLM_TRY(WriteAll(*file, record));
    SLM_TRY(publisher->Sync(*file));
  }
  if (state->records.empty()) SLM_TRY(publisher->SyncParent(layout.Log()));
  SLM_TRY(TakeRecord(record, layout.Log(), state));
  state->head_lags = true;
  SLM_TRY(publisher->ReplaceFile(layout.Head(), AsBytes(HeadText(*state))));
  state->head_lags = false;
  return {};
}

Status RewriteHead(Vfs& vfs, const Layout& layout, Publisher* publisher, LogState* state) {
  state->head_lags = true;
  return AppendRecord(vfs, layout, publisher, state, kRecoveredKind, {});
}

}  // namespace slm::store
