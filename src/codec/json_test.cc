#include "codec/json.h"

#include <gtest/gtest.h>

#include <bit>
#include <ctime>

#include "codec/json_key_set.h"
#include "codec/small_stack.h"

namespace slm::json {
namespace {

struct Refusal {
  std::string text;
  const char* code;
  uint64_t byte_offset;
};

TEST(Json, RefusalsWithOffsets) {
  const Refusal kTable[] = {
      {"", "JSON-SYNTAX", 0},
      {" ", "JSON-SYNTAX", 1},
      {"{", "JSON-SYNTAX", 1},
      {"[1", "JSON-SYNTAX", 2},
      {"[1,", "JSON-SYNTAX", 3},
      {"[1,]", "JSON-SYNTAX", 3},
      {"[,1]", "JSON-SYNTAX", 1},
      {"[1 2]", "JSON-SYNTAX", 3},
      {"[1}", "JSON-SYNTAX", 2},
      {"{\"a\":1]", "JSON-SYNTAX", 6},
      {"{\"a\":1,}", "JSON-SYNTAX", 7},
      {"{,}", "JSON-SYNTAX", 1},
      {"{\"a\"}", "JSON-SYNTAX", 4},
      {"{\"a\" 1}", "JSON-SYNTAX", 5},
      {"{\"a\":}", "JSON-SYNTAX", 5},
      {"{a:1}", "JSON-SYNTAX", 1},
      {"{1:1}", "JSON-SYNTAX", 1},
      {"{'a':1}", "JSON-SYNTAX", 1},
      {"1 1", "JSON-SYNTAX", 2},
      {"{} x", "JSON-SYNTAX", 3},
      {"[]]", "JSON-SYNTAX", 2},
      {"// c\n1", "JSON-SYNTAX", 0},
      {"[1/**/]", "JSON-SYNTAX", 2},
      {"NaN", "JSON-SYNTAX", 0},
      {"[Infinity]", "JSON-SYNTAX", 1},
      {"[-Infinity]", "JSON-SYNTAX", 1},
      {"nul", "JSON-SYNTAX", 0},
      {"True", "JSON-SYNTAX", 0},
      {"truefalse", "JSON-SYNTAX", 4},
      {"01", "JSON-SYNTAX", 0},
      {"[-01]", "JSON-SYNTAX", 1},
      {"+1", "JSON-SYNTAX", 0},
      {".5", "JSON-SYNTAX", 0},
      {"1.", "JSON-SYNTAX", 0},
      {"1.e5", "JSON-SYNTAX", 0},
      {"1e", "JSON-SYNTAX", 0},
      {"1e+", "JSON-SYNTAX", 0},
      {"-", "JSON-SYNTAX", 0},
      {"0x10", "JSON-SYNTAX", 1},
      {"1_000", "JSON-SYNTAX", 1},
      {"\"abc", "JSON-SYNTAX", 4},
      {"\"abc\\", "JSON-SYNTAX", 5},
      {"\"a\nb\"", "JSON-SYNTAX", 2},
      {"\"0123456789\tb\"", "JSON-SYNTAX", 11},
      {std::string("\"a\0b\"", 5), "JSON-SYNTAX", 2},
      {"\"a\\nb\nc\"", "JSON-SYNTAX", 5},
      {"\"ab\\x41\"", "JSON-SYNTAX", 3},
      {"\"\\u12g4\"", "JSON-SYNTAX", 1},
      {"\"\\u123\"", "JSON-SYNTAX", 1},
      {"\"\\U0041\"", "JSON-SYNTAX", 1},
      {"\xEF\xBB\xBF{}", "JSON-SYNTAX", 0},
      {"[1,\xC2\xA0 2]", "JSON-SYNTAX", 3},
      {"[1,\f2]", "JSON-SYNTAX", 3},
      {"{\"a\":1,\"a\":1}", "JSON-DUPKEY", 7},
      {"{\"a\":1,\"\\u0061\":2}", "JSON-DUPKEY", 7},
      {"{\"x\":{\"\":1,\"b\":2,\"\":3}}", "JSON-DUPKEY", 17},
      {"{\"/\":1,\"\\/\":2}", "JSON-DUPKEY", 7},
      {"{\"\xC3\xA9\":1,\"\\u00e9\":2}", "JSON-DUPKEY", 8},
      {"\"\\ud800\"", "JSON-SURROGATE", 1},
      {"\"ab\\udc00\"", "JSON-SURROGATE", 3},
      {"\"\\ud800\\ud800\"", "JSON-SURROGATE", 1},
      {"\"\\ud800\\u0041\"", "JSON-SURROGATE", 1},
      {"\"\\ud800x\"", "JSON-SURROGATE", 1},
      {"\"\\ud83d\\ude00\\ude00\"", "JSON-SURROGATE", 13},
      {"\"\xFF\"", "JSON-UTF8", 1},
      {"\"ab\xC0\x80\"", "JSON-UTF8", 3},
      {"[\"\xED\xA0\x80\"]", "JSON-UTF8", 2},
      {"[1,\xFF]", "JSON-UTF8", 3},
      {"[1,x,\"\xFF\"]", "JSON-SYNTAX", 3},  // the first fault of the text is the one that is named
      {"[\"\xFF\",x]", "JSON-UTF8", 2},
      {"{\"a\":0,\"a\":\"\xFF\"}", "JSON-DUPKEY", 7},
      {"{} \xFF", "JSON-UTF8", 3},
  };
  for (const Refusal& row : kTable) {
    const auto result = Parse(row.text);
    ASSERT_FALSE(result.has_value()) << row.text;
    EXPECT_EQ(result.error().CodeText(), row.code) << row.text;
    EXPECT_EQ(result.error().byte_offset, row.byte_offset) << row.text;
  }
}

TEST(Json, AcceptsEveryForm) {
  for (const char* text : {"0",
                           "-0",
                           "-0.0",
                           "1e5",
                           "1E+5",
                           "0e0",
                           "0.0e-0",
                           "123456789012345678901234567890",
                           "\"\"",
                           "[]",
                           "{}",
                           " [ ] ",
                           "\t\n\r {\"\":{}}\n",
                           "[[],[[]],{}]",
                           "null",
                           "true",
                           "false",
                           "\"\\u0000\"",
                           "\"\x7F\"",
                           "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
                           "{\"a\":1,\"A\":1}"}) {
    EXPECT_TRUE(Parse(text).has_value()) << text;
  }
}

TEST(Json, TrailingBytesAreMarked) {
  const auto refused = Parse("{} x");
  EXPECT_EQ(refused.error().field, "trailing");
  EXPECT_EQ(Parse("[1 2]").error().field, "");
  Limits spaces;
  spaces.allow_trailing_spaces_only = true;
  EXPECT_TRUE(Parse("{}   ", spaces).has_value());
  const auto tab = Parse("{}  \t", spaces);
  ASSERT_FALSE(tab.has_value());
  EXPECT_EQ(tab.error().byte_offset, 4u);
  EXPECT_EQ(tab.error().field, "trailing");
}

TEST(Json, Navigation) {
  const auto document = Parse(R"( {"a": [10, {"b\n": null}, "x"], "rope": {"factor": 2.5}, "t": true} )");
  ASSERT_TRUE(document.has_value());
  const Value root = document->root();
  EXPECT_EQ(root.size(), 3u);
  EXPECT_EQ(root.byte_offset(), 1u);
  std::string keys;
  for (const Value member : root.children()) keys += std::string(member.key()) + ";";
  EXPECT_EQ(keys, "a;rope;t;");
  const Value array = *root.Find("a");
  EXPECT_EQ(array.source_text(), R"([10, {"b\n": null}, "x"])");
  EXPECT_EQ(array.key_byte_offset(), 2u);
  std::vector<Value> elements;
  for (const Value element : array.children()) elements.push_back(element);
  ASSERT_EQ(elements.size(), 3u);
  EXPECT_EQ(elements[0].AsUint(), 10u);
  EXPECT_EQ(elements[0].key(), "");
  EXPECT_EQ(elements[1].First()->key(), "b\n");
  EXPECT_EQ(elements[1].First()->Path(), "$.a[1].b\n");
  EXPECT_EQ(elements[2].string(), "x");
  EXPECT_EQ(elements[2].Path(), "$.a[2]");
  EXPECT_FALSE(elements[2].Next());
  EXPECT_EQ(root.Find("rope")->Find("factor")->Path(), "$.rope.factor");
  EXPECT_EQ(root.Find("rope")->Find("factor")->AsDouble(), 2.5);
  EXPECT_EQ(root.Path(), "$");
  EXPECT_FALSE(root.Find("missing"));
  EXPECT_TRUE(root.Find("t")->boolean());
  EXPECT_FALSE(root.Next());
  EXPECT_FALSE(Parse("[]")->root().First());
}

TEST(Json, MovedDocumentKeepsHandles) {
  auto document = Parse("{\"key\":\"short\"}");
  const Value value = *document->root().Find("key");
  const Document moved = *std::move(document);
  EXPECT_EQ(value.string(), "short");
  EXPECT_EQ(moved.text(), "{\"key\":\"short\"}");
}

TEST(Json, Strings) {
  const auto document = Parse(
      "[\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\\u0000|\\\"\\\\\\/\\b\\f\\n\\r\\t\", \"plain\", \"\\n\"]");
  ASSERT_TRUE(document.has_value());
  const Value first = *document->root().First();
  EXPECT_EQ(first.string(), std::string_view("A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\0|\"\\/\b\f\n\r\t", 20));
  EXPECT_EQ(first.Next()->string(), "plain");
  EXPECT_EQ(first.Next()->Next()->string(), "\n");
}

TEST(Json, IntegersAreExact) {
  const auto uint_of = [](const char* text) { return Parse(text)->root().AsUint(); };
  const auto int_of = [](const char* text) { return Parse(text)->root().AsInt(); };
  EXPECT_EQ(uint_of("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(uint_of("18446744073709551616"), std::nullopt);
  EXPECT_EQ(uint_of("-1"), std::nullopt);
  EXPECT_EQ(uint_of("1.0"), std::nullopt);
  EXPECT_EQ(uint_of("1e3"), std::nullopt);
  EXPECT_EQ(uint_of("-0"), std::nullopt);
  EXPECT_EQ(uint_of("0"), 0u);
  EXPECT_EQ(uint_of("true"), std::nullopt);
  EXPECT_EQ(int_of("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(int_of("-9223372036854775809"), std::nullopt);
  EXPECT_EQ(int_of("9223372036854775808"), std::nullopt);
  EXPECT_EQ(int_of("-0"), std::nullopt);
  EXPECT_FALSE(Parse("-0")->root().is_integer_text());
  EXPECT_EQ(Parse("100000000000000000000000")->root().number_text(), "100000000000000000000000");
}

TEST(Json, DoublesAreCorrectlyRounded) {
  const auto bits = [](const std::string& text) {
    const auto value = Parse(text)->root().AsDouble();
    return value ? std::bit_cast<uint64_t>(*value) : UINT64_MAX;
  };
  EXPECT_EQ(bits("0.1"), 0x3FB999999999999Au);
  EXPECT_EQ(bits("1"), 0x3FF0000000000000u);
  EXPECT_EQ(bits("-0"), 0x8000000000000000u);
  EXPECT_EQ(bits("9007199254740993"), 0x4340000000000000u) << "a tie goes to even";
  EXPECT_EQ(bits("9007199254740993.00000000000000000000000000000001"), 0x4340000000000001u);
  EXPECT_EQ(bits("2.2250738585072011e-308"), 0x000FFFFFFFFFFFFFu);
  EXPECT_EQ(bits("2.2250738585072014e-308"), 0x0010000000000000u);
  EXPECT_EQ(bits("4.9e-324"), 1u);
  EXPECT_EQ(bits("2.4703282292062327e-324"), 0u) << "below half of the smallest double";
  EXPECT_EQ(bits("2.4703282292062328e-324"), 1u);
  EXPECT_EQ(bits("1.7976931348623157e308"), 0x7FEFFFFFFFFFFFFFu);
  EXPECT_EQ(bits("1e-400"), 0u);
  EXPECT_EQ(bits("-1e-400"), 0x8000000000000000u);
  EXPECT_EQ(bits("0e99999999999999999999"), 0u);
  EXPECT_EQ(bits("1e-99999999999999999999"), 0u);
  EXPECT_EQ(bits("0.000001e-99999999999999999999"), 0u);
  EXPECT_EQ(bits("0." + std::string(400, '0') + "1e401"), 0x3FF0000000000000u);
  for (const char* too_large : {"1.7976931348623159e308", "1e309", "-1e309",
                                "7276.087135E70132014226562052107282563481263", "1e99999999999999999999"}) {
    EXPECT_EQ(Parse(too_large)->root().AsDouble(), std::nullopt) << too_large;
  }
  EXPECT_EQ(Parse(std::string(400, '9'))->root().AsDouble(), std::nullopt);
}

TEST(Json, DepthLimit) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(Parse(nested(64)).has_value());
  const auto deep = Parse(nested(65));
  EXPECT_EQ(deep.error().CodeText(), "JSON-DEPTH");
  EXPECT_EQ(deep.error().byte_offset, 64u);
  OnSmallStack([&nested] {
    EXPECT_EQ(Parse(nested(1'000'000)).error().CodeText(), "JSON-DEPTH");
    EXPECT_EQ(Parse(std::string(1'000'000, '[')).error().CodeText(), "JSON-DEPTH");
    Limits wide;  // without the limit there is still no recursion
    wide.max_depth = 2'000'000;
    const auto document = Parse(nested(1'000'000), wide);
    EXPECT_TRUE(document.has_value());
    std::string objects;
    for (int i = 0; i < 300'000; ++i) objects += "{\"k\":";
    objects += "0" + std::string(300'000, '}');
    EXPECT_TRUE(Parse(objects, wide).has_value());
  });
}

TEST(Json, SizeLimits) {
  Limits limits;
  limits.max_bytes = 4;
  EXPECT_TRUE(Parse("[1] ", limits).has_value());
  const auto longer = Parse("[1]  ", limits);
  EXPECT_EQ(longer.error().CodeText(), "JSON-LIMIT");
  EXPECT_EQ(longer.error().byte_offset, 4u);
  Limits few;
  few.max_values = 3;
  EXPECT_TRUE(Parse("[1,2]", few).has_value());
  EXPECT_EQ(Parse("[1,2,3]", few).error().CodeText(), "JSON-LIMIT");
  EXPECT_EQ(Parse("[1,2,3]", few).error().byte_offset, 5u);
}

TEST(Json, DuplicateInLargeObject) {
  std::string text = "{";
  for (int i = 0; i < 5000; ++i) text += "\"key" + std::to_string(i) + "\":{\"x\":[1,2]},";
  const std::string good = text + "\"last\":1}";
  ASSERT_TRUE(Parse(good).has_value());
  for (const int i : {0, 11, 12, 13, 4999}) {
    const auto refused = Parse(text + "\"key" + std::to_string(i) + "\":1}");
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().CodeText(), "JSON-DUPKEY");
    EXPECT_EQ(refused.error().byte_offset, text.size());
    EXPECT_EQ(refused.error().field, "key" + std::to_string(i));
  }
}

// The same walk over keys for every size around the switch from comparing to hashing.
TEST(Json, DuplicateAtEveryPosition) {
  for (int n = 1; n < 40; ++n) {
    std::string text = "{";
    for (int i = 0; i < n; ++i) text += "\"" + std::to_string(i) + "\":[{}],";
    ASSERT_TRUE(Parse(text + "\"x\":0}").has_value());
    for (int i = 0; i < n; ++i) {
      ASSERT_EQ(Parse(text + "\"" + std::to_string(i) + "\":0}").error().byte_offset, text.size());
    }
  }
}

// The key hash is no secret: keys made to collide must still be told apart, and found.
TEST(Json, CollidingKeysMoveToAnOrderedSet) {
  Tape tape;
  KeySet keys(&tape);
  std::vector<std::string> colliding;
  for (uint64_t i = 0; colliding.size() < 300; ++i) {
    const std::string key = std::to_string(i);
    if ((HashKey(key) & 0xFFFF) == 7) colliding.push_back(key);
  }
  for (const std::string& key : colliding) {
    tape.entries.push_back({static_cast<uint32_t>(tape.text.size()),
                            static_cast<uint32_t>(tape.text.size() + key.size() + 2), 0, 0, Kind::kString,
                            false, false, false});
    tape.text += "\"" + key + "\"";
  }
  for (uint32_t i = 0; i < colliding.size(); ++i) ASSERT_TRUE(keys.Insert(i)) << i;
  EXPECT_TRUE(keys.is_ordered());
  for (uint32_t i = 0; i < colliding.size(); ++i) ASSERT_FALSE(keys.Insert(i)) << i;

  std::string text = "{";
  for (const std::string& key : colliding) text += "\"" + key + "\":0,";
  EXPECT_TRUE(Parse(text + "\"x\":0}").has_value());
  EXPECT_EQ(Parse(text + "\"" + colliding[200] + "\":0}").error().byte_offset, text.size());
}

TEST(Json, LargeObjectsStayNearLinear) {
  const auto time_of = [](size_t n_keys) {
    std::string text = "{";
    for (size_t i = 0; i < n_keys; ++i) text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
    text += "}";
    const std::clock_t start = std::clock();  // processor time: other programs do not count
    EXPECT_TRUE(Parse(std::move(text)).has_value());
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  static_cast<void>(time_of(1000));
  const double small = time_of(20'000);
  EXPECT_LT(time_of(400'000), 100 * small + 0.05) << "20 times the keys";
}

TEST(Json, OrdinaryKeysStayInTheHashTable) {
  Tape tape;
  KeySet keys(&tape);
  for (uint32_t i = 0; i < 200'000; ++i) {
    const std::string key = (i % 2 == 0 ? "model.layers." : "") + std::to_string(i);
    const auto begin = static_cast<uint32_t>(tape.text.size());
    tape.text += "\"" + key + "\"";
    tape.entries.push_back(
        {begin, static_cast<uint32_t>(tape.text.size()), 0, 0, Kind::kString, false, false, false});
    ASSERT_TRUE(keys.Insert(i));
  }
  EXPECT_FALSE(keys.is_ordered());
}

}  // namespace
}  // namespace slm::json
