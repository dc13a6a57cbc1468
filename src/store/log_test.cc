#include "store/log.h"

#include <gtest/gtest.h>

#include <fstream>

#include "codec/cbor.h"
#include "codec/crc32c.h"
#include "codec/sha256.h"
#include "store/fsck.h"
#include "store/model_vfs.h"
#include "store/test_scenario.h"

namespace slm::store {
namespace {

constexpr char kLog[] = "/s/log/000001.slog";
constexpr char kHead[] = "/s/refs/head";

class StoreLog : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(RunScenario(vfs_).has_value());
    LogState state;
    ASSERT_TRUE(ReadLogFrom(vfs_, layout_, &state).has_value());
    records_ = state.records;
    ASSERT_EQ(records_.size(), 3u);
  }
  Bytes& Log() { return vfs_.Contents(kLog); }
  std::string OpenError() {
    const auto store = Store::OpenOn(vfs_, kRoot);
    return store.has_value() ? ""
                             : store.error().CodeText() + " at " + store.error().file + ":" +
                                   std::to_string(store.error().byte_offset.value_or(999999));
  }
  FsckReport Report(const FsckOptions& options = {}) { return FsckOn(vfs_, kRoot, options).value(); }
  // refs/head as it stood after `n` records; built here without the code under test.
  void PutHead(size_t n) {
    const size_t begin = records_[n - 1].byte_offset;
    const size_t end = n < records_.size() ? records_[n].byte_offset : Log().size();
    const std::string text =
        std::to_string(n) + " " + ToHex(Sha256Of(ByteSpan(Log()).subspan(begin, end - begin))) + "\n";
    vfs_.Contents(kHead) = Bytes(text.begin(), text.end());
  }
  // As after a crash between the last record and its head.
  void ForgetHead() { PutHead(2); }

  ModelVfs vfs_;
  const Layout layout_{kRoot};
  std::vector<LogRecord> records_;
};

// The format, byte by byte, built here without the code under test.
TEST_F(StoreLog, RecordsAreAsSpecified) {
  const Bytes& log = Log();
  size_t at = 0;
  Hash256 previous{};
  for (const LogRecord& record : records_) {
    ASSERT_EQ(record.byte_offset, at);
    const Bytes payload = cbor::Encode(cbor::Map{
        {"seq", record.seq}, {"kind", record.kind}, {"nodes", cbor::Array{cbor::Value(record.nodes[0])}}});
    ASSERT_EQ(LoadLe<uint32_t>(log.data() + at), payload.size());
    Bytes covered(log.begin() + static_cast<ptrdiff_t>(at), log.begin() + static_cast<ptrdiff_t>(at) + 4);
    covered.insert(covered.end(), previous.begin(), previous.end());
    covered.insert(covered.end(), payload.begin(), payload.end());
    EXPECT_EQ(LoadLe<uint32_t>(log.data() + at + 4), Crc32c(covered));
    EXPECT_TRUE(std::equal(previous.begin(), previous.end(), log.begin() + static_cast<ptrdiff_t>(at) + 8));
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), log.begin() + static_cast<ptrdiff_t>(at) + 40));
    previous = Sha256Of(ByteSpan(log).subspan(at, 40 + payload.size()));
    at += 40 + payload.size();
  }
  EXPECT_EQ(at, log.size());
  EXPECT_EQ(AsText(vfs_.Contents(kHead)), "3 " + ToHex(previous) + "\n");
}

TEST(StorePage, WorkedExampleOfTheLog) {  // docs/spec/store.md
  std::ifstream page(SLM_SOURCE_DIR "/docs/spec/store.md");
  std::string line;
  while (std::getline(page, line) && line != "```hex") {
  }
  std::string hex;
  while (std::getline(page, line) && line != "```") hex += line;
  EXPECT_EQ(ToHex(EncodeRecord(LogState{}, "demo", {})), hex);
}

// K04: the last record torn at every length is recovered from, with a note.
TEST_F(StoreLog, TornTailIsRecovered) {
  const Bytes whole = Log();
  ForgetHead();
  for (size_t size = records_[2].byte_offset + 1; size < whole.size(); ++size) {
    Log() = Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    const FsckReport report = Report();
    ASSERT_TRUE(report.problems.empty()) << size;
    ASSERT_EQ(report.n_log_records, 2u);
    ASSERT_TRUE(report.notes[0].starts_with("torn tail at byte " + std::to_string(records_[2].byte_offset)));
    ASSERT_EQ(Store::OpenOn(vfs_, kRoot).value()->ReadLog()->size(), 2u);
  }
  ASSERT_TRUE(RunScenario(vfs_).has_value());
  const auto log = Store::OpenOn(vfs_, kRoot).value()->ReadLog().value();
  ASSERT_EQ(log.size(), 4u);
  EXPECT_EQ(log[2].kind, "recovered");
  EXPECT_EQ(log[3].kind, "three");
  EXPECT_EQ(Report().notes.size(), 1u);
  EXPECT_EQ(Report().notes[0], "recovered: record 3 follows a torn tail that was cut");
}

TEST_F(StoreLog, ZeroFilledTailIsTorn) {
  ForgetHead();
  std::fill(Log().begin() + static_cast<ptrdiff_t>(records_[2].byte_offset), Log().end(), uint8_t{0});
  EXPECT_TRUE(Report().problems.empty());
  EXPECT_EQ(Report().n_log_records, 2u);
}

TEST_F(StoreLog, RepairCutsATornTail) {
  ForgetHead();
  Log().resize(Log().size() - 5);
  const FsckReport report = Report({.quick = false, .repair = true});
  EXPECT_TRUE(report.problems.empty());
  EXPECT_TRUE(report.notes[0].starts_with("torn tail cut"));
  EXPECT_EQ(report.n_log_records, 3u) << "two, and the record of the recovery";
  EXPECT_EQ(Store::OpenOn(vfs_, kRoot).value()->ReadLog()->back().kind, "recovered");
}

// K05: any flipped bit in a record with a good one after it is damage, never repaired.
TEST_F(StoreLog, FlippedBitInTheMiddleIsCorrupt) {
  const Bytes whole = Log();
  for (size_t at = records_[1].byte_offset; at < records_[2].byte_offset; ++at) {
    Log() = whole;
    Log()[at] ^= 0x10;
    ASSERT_EQ(OpenError(), "LOG-CORRUPT at /s/log/000001.slog:" + std::to_string(records_[1].byte_offset))
        << at;
    for (const bool repair : {false, true}) {
      const FsckReport report = Report({.quick = false, .repair = repair});
      ASSERT_EQ(report.problems.size(), 1u);
      ASSERT_EQ(report.problems[0].code, ErrorCode::kLogCorrupt);
      ASSERT_EQ(report.problems[0].path_or_id, "log/000001.slog:" + std::to_string(records_[1].byte_offset));
    }
    Bytes damaged = whole;
    damaged[at] ^= 0x10;
    ASSERT_EQ(Log(), damaged) << "damage is reported, not touched";
  }
}

// A damaged last record that was durable is not a torn tail: the head tells them apart.
TEST_F(StoreLog, DamageToADurableLastRecordIsCorrupt) {
  Log().back() ^= 1;
  EXPECT_EQ(OpenError(), "LOG-CORRUPT at /s/log/000001.slog:" + std::to_string(records_[2].byte_offset));
  EXPECT_EQ(Report({.quick = false, .repair = true}).problems[0].code, ErrorCode::kLogCorrupt);
  EXPECT_EQ(Report().n_log_records, 2u);
}

// K06: a record taken out of the middle breaks the chain.
TEST_F(StoreLog, RemovedRecordBreaksTheChain) {
  Log().erase(Log().begin() + static_cast<ptrdiff_t>(records_[1].byte_offset),
              Log().begin() + static_cast<ptrdiff_t>(records_[2].byte_offset));
  EXPECT_EQ(OpenError(), "LOG-CHAIN at /s/log/000001.slog:" + std::to_string(records_[1].byte_offset));
  EXPECT_EQ(Report().problems[0].code, ErrorCode::kLogChain);
}

TEST_F(StoreLog, RemovedFirstRecordBreaksTheChain) {
  Log().erase(Log().begin(), Log().begin() + static_cast<ptrdiff_t>(records_[1].byte_offset));
  EXPECT_EQ(OpenError(), "LOG-CHAIN at /s/log/000001.slog:0");
}

TEST_F(StoreLog, SwappedRecordsBreakTheChain) {
  const Bytes whole = Log();
  const auto at = [&whole](uint64_t offset) { return whole.begin() + static_cast<ptrdiff_t>(offset); };
  Bytes swapped(whole.begin(), at(records_[1].byte_offset));
  swapped.insert(swapped.end(), at(records_[2].byte_offset), whole.end());
  swapped.insert(swapped.end(), at(records_[1].byte_offset), at(records_[2].byte_offset));
  Log() = swapped;
  EXPECT_EQ(OpenError(), "LOG-CHAIN at /s/log/000001.slog:" + std::to_string(records_[1].byte_offset));
}

// K07: a reference that leads beyond the log: the log was cut by whole records.
TEST_F(StoreLog, LogCutByWholeRecordsIsFound) {
  Log().resize(records_[2].byte_offset);
  EXPECT_EQ(OpenError(), "FSCK-REF at /s/refs/head:999999");
  const FsckReport report = Report();
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_EQ(report.problems[0].code, ErrorCode::kFsckRef);
  EXPECT_EQ(report.problems[0].path_or_id, "refs/head");
}

TEST_F(StoreLog, HeadOfAnotherLogIsFound) {
  vfs_.Contents(kHead)[2] ^= 1;
  EXPECT_EQ(OpenError(), "FSCK-REF at /s/refs/head:999999");
}

TEST_F(StoreLog, HeadOfTheWrongFormIsFound) {
  for (const char* text : {"", "x", "0 00\n", "3\n", "-3 00\n", "3  \n"}) {
    vfs_.Contents(kHead) = Bytes(AsBytes(text).begin(), AsBytes(text).end());
    EXPECT_EQ(OpenError(), "FSCK-REF at /s/refs/head:999999") << text;
  }
}

// A crash leaves the head one record behind at most, so one that is lost, or older, is damage: without
// this, whoever cuts the log needs only to take the head away too.
TEST_F(StoreLog, LostOrOldHeadIsFound) {
  PutHead(2);
  EXPECT_EQ(OpenError(), "");
  EXPECT_TRUE(Report().problems.empty());
  PutHead(1);
  EXPECT_EQ(OpenError(), "FSCK-REF at /s/refs/head:999999");
  ASSERT_TRUE(vfs_.Remove(kHead).has_value());
  EXPECT_EQ(OpenError(), "FSCK-REF at /s/refs/head:999999");
  ASSERT_EQ(Report().problems.size(), 1u);
  EXPECT_EQ(Report().problems[0].path_or_id, "refs/head");
}

TEST_F(StoreLog, RepairMakesALostHeadAnewAndSaysSo) {
  for (const bool is_absent : {true, false}) {
    vfs_.Contents(kHead).clear();
    if (is_absent) ASSERT_TRUE(vfs_.Remove(kHead).has_value());
    const size_t n_before = Report().n_log_records;
    FsckReport report = Report({.quick = false, .repair = true});
    EXPECT_EQ(report.problems.size(), 1u) << "what was wrong is still reported once";
    EXPECT_TRUE(report.notes.back().starts_with("refs/head was written anew")) << report.notes.back();
    report = Report();
    EXPECT_TRUE(report.problems.empty());
    EXPECT_EQ(report.n_log_records, n_before + 1) << "a record of kind recovered stays as a trace";
    EXPECT_EQ(Store::OpenOn(vfs_, kRoot).value()->ReadLog()->back().kind, "recovered");
  }
}

TEST_F(StoreLog, RepairLeavesACutLogAsItIs) {
  const Bytes whole = Log();
  Log().resize(records_[2].byte_offset);  // refs/head still names the record that is gone
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Report({.quick = false, .repair = true}).problems.size(), 1u);
  EXPECT_EQ(Log().size(), records_[2].byte_offset);
  Log() = whole;
  Log().resize(records_[1].byte_offset);
  const Bytes head = vfs_.Contents(kHead);
  vfs_.Contents(kHead)[0] = '3';
  Log().back() ^= 1;
  EXPECT_EQ(Report({.quick = false, .repair = true}).problems.size(), 1u);
  EXPECT_EQ(vfs_.Contents(kHead), head) << "a damaged log is never declared good";
}

// The last record is durable and its head is not; then the next writer crashes at the same place.
TEST_F(StoreLog, TheHeadCatchesUpBeforeTheNextRecord) {
  PutHead(2);
  bool has_appended = false;
  for (size_t ahead = 0; ahead < 40 && !has_appended; ++ahead) {
    const auto store = Store::OpenOn(vfs_, kRoot).value();
    vfs_.FailAt(vfs_.n_calls() + ahead, Fault::kDiskFull);
    if (store->AppendLog("extra", {}).has_value()) break;
    vfs_.FailAt(SIZE_MAX, Fault::kNone);
    has_appended = Store::OpenOn(vfs_, kRoot).value()->ReadLog()->back().kind == "extra";
  }
  ASSERT_TRUE(has_appended) << "no call failed between the record and its head";
  EXPECT_TRUE(AsText(vfs_.Contents(kHead)).starts_with("3 "));
  EXPECT_TRUE(Report().problems.empty());
}

// A record with a good checksum and a payload of the wrong form can only come from a program.
TEST_F(StoreLog, ForgedPayloadIsCorrupt) {
  const auto forge = [this](cbor::Map payload_map) {
    Bytes log(Log().begin(), Log().begin() + static_cast<ptrdiff_t>(records_[2].byte_offset));
    const Bytes payload = cbor::Encode(cbor::Value(std::move(payload_map)));
    Bytes record;
    AppendLe<uint32_t>(&record, static_cast<uint32_t>(payload.size()));
    const Hash256 previous = Sha256Of(ByteSpan(log).subspan(records_[1].byte_offset));
    Bytes covered = record;
    covered.insert(covered.end(), previous.begin(), previous.end());
    covered.insert(covered.end(), payload.begin(), payload.end());
    AppendLe<uint32_t>(&record, Crc32c(covered));
    record.insert(record.end(), covered.begin() + 4, covered.end());
    log.insert(log.end(), record.begin(), record.end());
    Log() = log;
    return OpenError();
  };
  ForgetHead();
  const std::string where = " at /s/log/000001.slog:" + std::to_string(records_[2].byte_offset);
  const cbor::Array none;
  EXPECT_EQ(forge({{"seq", 3}, {"kind", "x"}, {"nodes", none}}), "") << "the forge itself works";
  EXPECT_EQ(forge({{"seq", 4}, {"kind", "x"}, {"nodes", none}}), "LOG-CHAIN" + where);
  EXPECT_EQ(forge({{"seq", "3"}, {"kind", "x"}, {"nodes", none}}), "LOG-CORRUPT/SCHEMA-TYPE" + where);
  EXPECT_EQ(forge({{"seq", 3}, {"kind", "x"}, {"nodes", cbor::Array{1}}}), "LOG-CORRUPT/SCHEMA-TYPE" + where);
  EXPECT_EQ(forge({{"seq", 3}, {"kind", "x"}, {"extra", 1}}), "LOG-CORRUPT/SCHEMA-MISSING" + where);
}

TEST_F(StoreLog, TwoStoresSeeEachOthersRecords) {
  const auto a = Store::OpenOn(vfs_, kRoot).value();
  const auto b = Store::OpenOn(vfs_, kRoot).value();
  const Hash256 from_a = a->PutNode(Node{"attempt", {{"schema", "s"}, {"n", 1}}, {}}).value();
  EXPECT_FALSE(b->HasNode(from_a));
  ASSERT_TRUE(a->AppendLog("from-a", std::span(&from_a, 1)).has_value());
  EXPECT_TRUE(b->HasNode(from_a));
  ASSERT_TRUE(b->AppendLog("from-b", {}).has_value());
  ASSERT_TRUE(a->AppendLog("from-a-again", {}).has_value());
  const auto log = b->ReadLog().value();
  ASSERT_EQ(log.size(), 6u);
  EXPECT_EQ(log[4].kind, "from-b");
  EXPECT_EQ(log[5].seq, 6u);
}

}  // namespace
}  // namespace slm::store
