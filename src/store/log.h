// The append-only log (docs/spec/store.md). Internal to store/.
//
// A record: u32 length of the CBOR | u32 crc32c of length, previous hash and CBOR | 32 bytes
// SHA-256 of the whole previous record (zeros before the first) | CBOR {seq, kind, nodes}.
//
// A crash can tear the last record only; such a tail is cut by the next writer, which then says
// so with a record of kind `recovered`. Whatever else is wrong is damage and stops every writer.
// refs/head names the last record that was made durable, so that damage to that record, or a
// log that was cut short, is not taken for a torn tail.
#ifndef SLM_STORE_LOG_H_
#define SLM_STORE_LOG_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "store/layout.h"
#include "store/store.h"
#include "store/vfs.h"

namespace slm::store {

inline constexpr std::string_view kRecoveredKind = "recovered";

// What is known of the log so far.
struct LogState {
  std::vector<LogRecord> records;
  std::vector<Hash256> record_hashes;
  uint64_t n_good_bytes = 0;    // end of the last good record
  uint64_t n_torn_bytes = 0;    // after it
  bool head_is_lost = false;    // damage is that refs/head is lost, no head, or too old; the records are good
  bool head_lags = false;       // refs/head does not know of the last record yet
  std::optional<Error> damage;  // LOG-CORRUPT, LOG-CHAIN or FSCK-REF; reading stopped there
};

// The bytes of the record after the last one of `state`.
[[nodiscard]] Bytes EncodeRecord(const LogState& state, std::string_view kind,
                                 std::span<const Hash256> nodes);

// Reads what was appended since `state`. Fails only where a file cannot be read.
[[nodiscard]] Status ReadLogFrom(Vfs& vfs, const Layout& layout, LogState* state);

// Cuts a torn tail, if there is one, and records that. REQUIRES: the store's lock is held, no damage.
[[nodiscard]] Status RecoverTail(Vfs& vfs, const Layout& layout, Publisher* publisher, LogState* state);

// Makes a head for the log as it stands, and records that with a record of kind `recovered`.
// REQUIRES: the store's lock is held, every record is good, no torn tail.
[[nodiscard]] Status RewriteHead(Vfs& vfs, const Layout& layout, Publisher* publisher, LogState* state);

// REQUIRES: the store's lock is held, no damage, no torn tail.
[[nodiscard]] Status AppendRecord(Vfs& vfs, const Layout& layout, Publisher* publisher, LogState* state,
                                  std::string_view kind, std::span<const Hash256> nodes);

}  // namespace slm::store

#endif  // SLM_STORE_LOG_H_
