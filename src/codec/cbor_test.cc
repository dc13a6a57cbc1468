#include "codec/cbor.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <new>
#include <random>
#include <sstream>

#include "codec/json.h"
#include "codec/small_stack.h"

namespace {
// Bytes that this thread has asked for, to show that a hostile count reserves nothing.
thread_local size_t allocated_bytes = 0;
}  // namespace

void* operator new(size_t n_bytes) {
  allocated_bytes += n_bytes;
  void* memory = std::malloc(n_bytes == 0 ? 1 : n_bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace slm::cbor {
namespace {

Bytes Hex(std::string_view hex) {
  Bytes bytes;
  EXPECT_TRUE(FromHex(hex, &bytes)) << hex;
  return bytes;
}

std::string CodeOf(const Result<Value>& result) {
  return result.has_value() ? "" : result.error().CodeText();
}

// ID-06, H01: the table of the profile, each with its verdict and its code.
TEST(CborVectors, Table) {
  std::ifstream file(SLM_SOURCE_DIR "/vectors/cbor/p0.json", std::ios::binary);
  ASSERT_TRUE(file);
  std::stringstream text;
  text << file.rdbuf();
  const auto document = json::Parse(text.str());
  ASSERT_TRUE(document.has_value()) << document.error().ToString();
  size_t n_accepted = 0;
  size_t n_rejected = 0;
  for (const json::Value vector : document->root().children()) {
    const Bytes bytes = Hex(vector.Find("hex")->string());
    const auto result = Decode(bytes);
    const std::string id(vector.Find("id")->string());
    EXPECT_EQ(CodeOf(result), vector.Find("error")->string()) << id;
    EXPECT_EQ(result.has_value(), vector.Find("profile_p0")->boolean()) << id;
    if (result.has_value()) {
      ++n_accepted;
      EXPECT_EQ(Encode(*result), bytes) << id;
    } else {
      ++n_rejected;
      ASSERT_TRUE(result.error().byte_offset) << id;
      EXPECT_LE(*result.error().byte_offset, bytes.size()) << id;
    }
  }
  EXPECT_EQ(n_accepted, 8u);
  EXPECT_EQ(n_rejected, 49u);
}

struct Refusal {
  const char* hex;
  const char* code;
  uint64_t byte_offset;
};

// Our own table: one row for each rule, with the offset that the error must name.
TEST(Cbor, RefusalsWithOffsets) {
  const Refusal kTable[] = {
      {"", "TRUNCATED", 0},
      {"18", "TRUNCATED", 0},
      {"1900", "TRUNCATED", 0},
      {"8201", "TRUNCATED", 0},          // two items cannot fit in one byte
      {"82011a000000", "TRUNCATED", 2},  // the second item's head is cut
      {"8264616200", "TRUNCATED", 1},    // the string would need one byte more
      {"826161", "TRUNCATED", 3},        // the second item is missing
      {"0000", "TRAILING_BYTES", 1},
      {"a0f6", "TRAILING_BYTES", 1},
      {"811817", "NON_SHORTEST", 1},
      {"81190017", "NON_SHORTEST", 1},
      {"1900ff", "NON_SHORTEST", 0},
      {"1a0000ffff", "NON_SHORTEST", 0},
      {"1b00000000ffffffff", "NON_SHORTEST", 0},
      {"81ff", "INDEFINITE", 1},
      {"815f", "INDEFINITE", 1},
      {"811c", "RESERVED_AI", 1},
      {"81fe", "RESERVED_AI", 1},
      {"1f", "RESERVED_AI", 0},
      {"3f", "RESERVED_AI", 0},
      {"df", "RESERVED_AI", 0},
      {"a2616101f500", "KEY_TYPE", 4},
      {"a1ff00", "KEY_TYPE", 1},
      {"a1622d2d00", "KEY_CHARSET", 1},
      {"a162c3a900", "KEY_CHARSET", 1},
      {"a161410000", "KEY_CHARSET", 1},
      {"a262616100616200", "KEY_ORDER", 5},  // a shorter key comes first
      {"a2616200616100", "KEY_ORDER", 4},
      {"a2616100616100", "DUPLICATE_KEY", 4},
      {"8263616263"
       "62c328",
       "BAD_UTF8", 6},
      {"64f0808080", "BAD_UTF8", 1},
      {"81f93c00", "FLOAT_FORBIDDEN", 1},
      {"fa00000000", "FLOAT_FORBIDDEN", 0},
      {"fb", "FLOAT_FORBIDDEN", 0},
      {"81c000", "TAG_FORBIDDEN", 1},
      {"81f7", "SIMPLE_FORBIDDEN", 1},
      {"f3", "SIMPLE_FORBIDDEN", 0},
      {"f8ff", "SIMPLE_FORBIDDEN", 0},
      {"813b8000000000000000", "INT_RANGE", 1},
  };
  for (const Refusal& row : kTable) {
    const auto result = Decode(Hex(row.hex));
    EXPECT_EQ(CodeOf(result), row.code) << row.hex;
    if (!result.has_value()) EXPECT_EQ(result.error().byte_offset, row.byte_offset) << row.hex;
  }
}

TEST(Cbor, KeyLengthBounds) {
  const auto map_with_key = [](size_t length) {
    Bytes bytes{0xA1, 0x78, static_cast<uint8_t>(length)};
    bytes.insert(bytes.end(), length, 'k');
    bytes.push_back(0);
    return bytes;
  };
  EXPECT_EQ(CodeOf(Decode(map_with_key(64))), "");
  EXPECT_EQ(CodeOf(Decode(map_with_key(65))), "KEY_CHARSET");
}

TEST(Cbor, ShortestHeadsAtEveryBoundary) {  // RFC 8949 appendix A and the edges of each width
  const std::pair<uint64_t, const char*> kTable[] = {{0, "00"},
                                                     {23, "17"},
                                                     {24, "1818"},
                                                     {255, "18ff"},
                                                     {256, "190100"},
                                                     {65535, "19ffff"},
                                                     {65536, "1a00010000"},
                                                     {0xFFFFFFFF, "1affffffff"},
                                                     {0x100000000, "1b0000000100000000"},
                                                     {1000000000000, "1b000000e8d4a51000"},
                                                     {UINT64_MAX, "1bffffffffffffffff"}};
  for (const auto& [number, hex] : kTable) {
    EXPECT_EQ(ToHex(Encode(Value(number))), hex);
    EXPECT_EQ(*Decode(Hex(hex))->AsUint(), number);
  }
  EXPECT_EQ(ToHex(Encode(Value(-1))), "20");
  EXPECT_EQ(ToHex(Encode(Value(-24))), "37");
  EXPECT_EQ(ToHex(Encode(Value(-25))), "3818");
  EXPECT_EQ(ToHex(Encode(Value(-1000))), "3903e7");
  EXPECT_EQ(ToHex(Encode(Value(INT64_MIN))), "3b7fffffffffffffff");
  EXPECT_EQ(ToHex(Encode(Value(INT64_MIN + 1))), "3b7ffffffffffffffe");
  EXPECT_EQ(ToHex(Encode(Value("IETF"))), "6449455446");
  EXPECT_EQ(ToHex(Encode(Value(Bytes{1, 2, 3, 4}))), "4401020304");
  EXPECT_EQ(ToHex(Encode(Value(Array{1, Array{2, 3}, Array{4, 5}}))), "8301820203820405");
  EXPECT_EQ(ToHex(Encode(Value(Map{{"b", Array{2, 3}}, {"a", 1}}))), "a26161016162820203");
  EXPECT_EQ(ToHex(Encode(Value(true))) + ToHex(Encode(Value(false))) + ToHex(Encode(Value())), "f5f4f6");
}

TEST(Cbor, MapKeepsEncodedOrder) {
  Map map;
  for (const char* key : {"zz", "b", "aaa", "a", "c_9", "0", "zz"}) map.Set(key, 1);
  std::string order;
  for (const auto& [key, value] : map) order += key + " ";
  EXPECT_EQ(order, "0 a b zz aaa c_9 ");
  EXPECT_EQ(map.Find("missing"), nullptr);
  map.Set("a", "new");
  EXPECT_EQ(*map.Find("a")->AsTextString(), "new");
  EXPECT_EQ(map.size(), 6u);
}

// H02, H03: sixteen levels are good, seventeen are not, and a million use no stack.
TEST(Cbor, DepthLimit) {
  const auto nested = [](size_t depth, uint8_t head) {
    Bytes bytes(depth, head);
    bytes.back() = 0x80;
    return bytes;
  };
  EXPECT_EQ(CodeOf(Decode(nested(16, 0x81))), "");
  const auto deep = Decode(nested(17, 0x81));
  EXPECT_EQ(CodeOf(deep), "LIMIT_DEPTH");
  EXPECT_EQ(deep.error().byte_offset, 16u);
  Bytes maps;
  for (int i = 0; i < 17; ++i) maps.insert(maps.end(), {0xA1, 0x61, 'k'});
  maps.push_back(0);
  EXPECT_EQ(CodeOf(Decode(maps)), "LIMIT_DEPTH");
  OnSmallStack([&nested] {
    EXPECT_EQ(CodeOf(Decode(nested(1'000'000, 0x81))), "LIMIT_DEPTH");
    // Closing each level before the next one opens must not hide the depth: [[[..],0],0].
    EXPECT_EQ(CodeOf(Decode(nested(1'000'000, 0x82))), "LIMIT_DEPTH");
    Limits wide;
    wide.max_depth = UINT32_MAX;
    EXPECT_EQ(CodeOf(Decode(nested(1'000'000, 0x81), wide)), "LIMIT_DEPTH");
  });
}

TEST(Cbor, ManySiblingsAreNotDepth) {
  Array array;
  for (int i = 0; i < 100; ++i) array.emplace_back(Array{Array{}});
  EXPECT_EQ(CodeOf(Decode(Encode(Value(array)))), "");
}

// H04: counts are compared with the input before anything is reserved.
TEST(Cbor, HostileCountsAllocateNothing) {
  for (const char* hex :
       {"bb000000010000000000",
        "ba80000000"
        "6161",
        "9bffffffffffffffff", "9a7fffffff00", "5affffffff", "7bffffffffffffffff", "bbffffffffffffffff"}) {
    const Bytes bytes = Hex(hex);
    allocated_bytes = 0;
    const auto result = Decode(bytes);
    const size_t n_allocated = allocated_bytes;
    EXPECT_EQ(CodeOf(result), "TRUNCATED") << hex;
    EXPECT_LT(n_allocated, 256u) << hex << ": only the message may be allocated";
  }
}

// H05: too long as a whole, a string too long, too many items.
TEST(Cbor, SizeLimits) {
  const auto long_input = Decode(Bytes(17u << 20, 0));
  EXPECT_EQ(CodeOf(long_input), "LIMIT_SIZE");
  EXPECT_EQ(long_input.error().byte_offset, 16u << 20);
  EXPECT_EQ(CodeOf(Decode(Encode(Value(Bytes((4u << 20) + 1))))), "LIMIT_SIZE");
  EXPECT_EQ(CodeOf(Decode(Encode(Value(Bytes(4u << 20))))), "");
  EXPECT_EQ(CodeOf(Decode(Encode(Value(Array((1u << 20) - 1, Value(0)))))), "");
  EXPECT_EQ(CodeOf(Decode(Encode(Value(Array(1u << 20, Value(0)))))), "LIMIT_ITEMS");
  Limits few;
  few.max_items = 3;
  EXPECT_EQ(CodeOf(Decode(Hex("820102"), few)), "");
  EXPECT_EQ(CodeOf(Decode(Hex("83010203"), few)), "LIMIT_ITEMS");
  EXPECT_EQ(CodeOf(Decode(Hex("82018102"), few)), "LIMIT_ITEMS");
}

// Values at random, all kinds, from a fixed seed.
class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}
  Value Any(int depth) {
    switch (random_() % (depth > 0 ? 9 : 7)) {
      case 0:
        return Value();
      case 1:
        return Value(random_() % 2 == 0);
      case 2:
        return Value(Number());
      case 3:
        return Value(-1 - static_cast<int64_t>(Number() >> 1));
      case 4:
        return Value(std::string(random_() % 40, 'x') + "\xC3\xA9");
      case 5:
        return Value(Bytes(random_() % 300, 0xAB));
      case 6:
        return Value("");
      case 7: {
        Array array;
        for (size_t n = random_() % 30; n > 0; --n) array.push_back(Any(depth - 1));
        return Value(std::move(array));
      }
      default: {
        Map map;
        for (size_t n = random_() % 30; n > 0; --n) map.Set(Key(), Any(depth - 1));
        return Value(std::move(map));
      }
    }
  }
  uint32_t Below(size_t n) { return static_cast<uint32_t>(random_() % n); }

 private:
  uint64_t Number() { return ((uint64_t{random_()} << 32) | random_()) >> (random_() % 64); }
  std::string Key() {
    constexpr std::string_view kCharacters = "abcdefghijklmnopqrstuvwxyz0123456789_";
    std::string key;
    for (size_t n = 1 + random_() % 64; n > 0; --n) key += kCharacters[random_() % kCharacters.size()];
    return key;
  }
  std::mt19937 random_;
};

TEST(Cbor, RandomValuesRoundTrip) {
  Generator generator(1);
  for (int i = 0; i < 300; ++i) {
    const Value value = generator.Any(4);
    const Bytes bytes = Encode(value);
    const auto back = Decode(bytes);
    ASSERT_TRUE(back.has_value()) << back.error().ToString();
    ASSERT_EQ(*back, value);
    ASSERT_EQ(Encode(*back), bytes);
    Bytes longer = bytes;
    longer.push_back(0);
    ASSERT_EQ(CodeOf(Decode(longer)), "TRAILING_BYTES");
    size_t consumed = 0;
    ASSERT_EQ(*DecodePrefix(longer, &consumed), value);
    ASSERT_EQ(consumed, bytes.size());
  }
}

TEST(Cbor, EveryTruncatedPrefixIsTruncated) {
  Generator generator(2);
  for (int i = 0; i < 60; ++i) {
    const Bytes bytes = Encode(generator.Any(3));
    for (size_t n = 0; n < bytes.size(); n += 1 + n / 400) {
      ASSERT_EQ(CodeOf(Decode(ByteSpan(bytes).first(n))), "TRUNCATED") << n << " of " << bytes.size();
    }
  }
}

// One value has one encoding: whatever a damaged input still decodes to encodes to that input.
TEST(Cbor, AcceptedMutantsReencodeEqual) {
  Generator generator(3);
  size_t n_accepted = 0;
  size_t n_refused = 0;
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes = Encode(generator.Any(2));
    bytes[generator.Below(bytes.size())] = static_cast<uint8_t>(generator.Below(256));
    const auto result = Decode(bytes);
    if (!result.has_value()) {
      ASSERT_LE(*result.error().byte_offset, bytes.size());
      ++n_refused;
      continue;
    }
    ++n_accepted;
    ASSERT_EQ(Encode(*result), bytes);
  }
  EXPECT_GT(n_accepted, 1000u);
  EXPECT_GT(n_refused, 1000u);
}

TEST(Cbor, DecodePrefixReportsTheCutAsSize) {
  Limits limits;
  limits.max_bytes = 4;
  size_t consumed = 0;
  EXPECT_EQ(CodeOf(DecodePrefix(Hex("4301020300"), &consumed, limits)), "");
  EXPECT_EQ(CodeOf(DecodePrefix(Hex("440102030400"), &consumed, limits)), "LIMIT_SIZE");
  EXPECT_EQ(CodeOf(DecodePrefix(Hex("4401"), &consumed, limits)), "TRUNCATED");
}

TEST(Cbor, WorkedExampleOfThePage) {  // docs/spec/cbor.md
  std::ifstream page(SLM_SOURCE_DIR "/docs/spec/cbor.md");
  std::string hex;
  while (std::getline(page, hex) && hex != "```hex") {
  }
  ASSERT_TRUE(std::getline(page, hex));
  const auto value = Decode(Hex(hex));
  ASSERT_TRUE(value.has_value()) << value.error().ToString();
  EXPECT_EQ(ToJson(*value, false), R"({"n":-1000,"edges":["child"],"schema":"s"})");
  EXPECT_EQ(ToHex(Encode(*value)), hex);
}

TEST(Cbor, CheckEncodableFindsWhatEncodeMayNotGet) {
  EXPECT_TRUE(CheckEncodable(Value(Map{{"a", Array{1, "x", -1, Bytes{255}, Value()}}})).has_value());
  const Status bad_text = CheckEncodable(Value(Map{{"outer", Map{{"inner", Array{std::string("\xFF")}}}}}));
  EXPECT_EQ(bad_text.error().CodeText(), "BAD_UTF8");
  EXPECT_EQ(bad_text.error().field, "outer.inner");
  EXPECT_EQ(CheckEncodable(Value(Map{{"Upper", 1}})).error().CodeText(), "KEY_CHARSET");
  EXPECT_EQ(CheckEncodable(Value(Map{{"", 1}})).error().CodeText(), "KEY_CHARSET");
}

TEST(CborJson, DiagnosticText) {
  const Value value(
      Map{{"bytes", Bytes{0, 255}}, {"list", Array{-1, UINT64_MAX, Value(), true}}, {"text", "a\"\n"}});
  EXPECT_EQ(
      ToJson(value, false),
      "{\"list\":[-1,18446744073709551615,null,true],\"text\":\"a\\\"\\n\",\"bytes\":{\"hex\":\"00ff\"}}");
  EXPECT_TRUE(json::Parse(ToJson(value, true)).has_value());
}

class CborReader : public testing::Test {
 protected:
  const Map map_{{"array", Array{1}},  {"big", UINT64_MAX}, {"bytes", Bytes{1}}, {"flag", true},
                 {"hash", Hash256{7}}, {"map", Map{}},      {"minus", -5},       {"none", Value()},
                 {"text", "hello"},    {"uint", 5}};
};

TEST_F(CborReader, ReadsEachKind) {
  Reader reader(map_);
  EXPECT_EQ(reader.Uint("uint").value(), 5u);
  EXPECT_EQ(reader.Int("uint").value(), 5);
  EXPECT_EQ(reader.Int("minus").value(), -5);
  EXPECT_TRUE(reader.Bool("flag").value());
  EXPECT_EQ(reader.Text("text").value(), "hello");
  EXPECT_EQ(reader.ByteString("bytes").value(), Bytes{1});
  EXPECT_EQ(reader.Hash("hash").value(), Hash256{7});
  EXPECT_EQ(reader.ArrayOf("array").value()->size(), 1u);
  EXPECT_EQ(reader.MapOf("map").value()->size(), 0u);
  EXPECT_EQ(reader.Uint("big").value(), UINT64_MAX);
  EXPECT_EQ(reader.Optional("absent"), nullptr);
  // H06: `none` was never asked for.
  ASSERT_FALSE(reader.Finish().has_value());
  EXPECT_EQ(reader.Finish().error().code, ErrorCode::kSchemaUnknownKey);
  EXPECT_EQ(reader.Finish().error().field, "none");
  EXPECT_TRUE(reader.Optional("none")->is_null());
  EXPECT_TRUE(reader.Finish().has_value());
}

TEST_F(CborReader, NamesTheFieldThatIsWrong) {  // H07 and the other schema codes
  Reader reader(map_, "outer");
  EXPECT_EQ(reader.Uint("none").error().CodeText(), "SCHEMA-NULL");
  EXPECT_EQ(reader.Uint("none").error().field, "outer.none");
  EXPECT_EQ(reader.Text("absent").error().CodeText(), "SCHEMA-MISSING");
  EXPECT_EQ(reader.Text("absent").error().field, "outer.absent");
  EXPECT_EQ(reader.Uint("minus").error().CodeText(), "SCHEMA-TYPE");
  EXPECT_EQ(reader.Int("text").error().CodeText(), "SCHEMA-TYPE");
  EXPECT_EQ(reader.Int("big").error().CodeText(), "SCHEMA-VALUE");
  EXPECT_EQ(reader.Bool("uint").error().CodeText(), "SCHEMA-TYPE");
  EXPECT_EQ(reader.Text("bytes").error().CodeText(), "SCHEMA-TYPE");
  EXPECT_EQ(reader.ByteString("text").error().CodeText(), "SCHEMA-TYPE");
  EXPECT_EQ(reader.Hash("bytes").error().CodeText(), "SCHEMA-TYPE");
  EXPECT_EQ(reader.ArrayOf("map").error().CodeText(), "SCHEMA-TYPE");
  EXPECT_EQ(reader.MapOf("array").error().CodeText(), "SCHEMA-TYPE");
  EXPECT_EQ(reader.MapOf("array").error().field, "outer.array");
}

TEST(Cbor, OffsetOfAPath) {
  // {"a": [7, {"b": 300}], "cd": h'01'}: bytes written by hand.
  const Bytes bytes = {0xa2, 0x61, 'a',  0x82, 0x07, 0xa1, 0x61, 'b',
                       0x19, 0x01, 0x2c, 0x62, 'c',  'd',  0x41, 0x01};
  ASSERT_TRUE(Decode(bytes).has_value());
  const std::pair<const char*, uint64_t> places[] = {
      {"", 0},  {"a", 3},    {"a[0]", 4},   {"a[1]", 5},   {"a[1].b", 8}, {"cd", 14},
      {"x", 0}, {"a[9]", 3}, {"a[1].x", 5}, {"a[0].b", 4}, {"cd[0]", 14}, {"a[x]", 3}};
  for (const auto& [path, at] : places) EXPECT_EQ(OffsetOf(bytes, path), at) << path;
}

}  // namespace
}  // namespace slm::cbor
