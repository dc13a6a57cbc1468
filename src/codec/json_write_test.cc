#include <gtest/gtest.h>

#include "codec/json.h"

namespace slm::json {
namespace {

TEST(JsonWriter, Compact) {
  Writer out;
  out.BeginObject().Key("a").BeginArray().Uint(1).Int(-2).Bool(true).Null().EndArray();
  out.Key("b")
      .BeginObject()
      .EndObject()
      .Key("c")
      .BeginArray()
      .EndArray()
      .Key("d")
      .Raw("[0]")
      .Key("e")
      .String("x")
      .EndObject();
  EXPECT_EQ(out.text(), "{\"a\":[1,-2,true,null],\"b\":{},\"c\":[],\"d\":[0],\"e\":\"x\"}");
}

TEST(JsonWriter, Indented) {
  Writer out(true);
  out.BeginObject()
      .Key("a")
      .BeginArray()
      .Uint(1)
      .Uint(2)
      .EndArray()
      .Key("b")
      .BeginObject()
      .EndObject()
      .EndObject();
  EXPECT_EQ(out.text(), "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}");
}

TEST(JsonWriter, TopLevelScalar) {
  Writer out;
  out.String("x");
  EXPECT_EQ(out.Take(), "\"x\"");
}

TEST(JsonWriter, QuotedTextReadsBack) {
  std::string all;
  for (int c = 0; c < 0x80; ++c) all.push_back(static_cast<char>(c));
  all += "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  std::string quoted;
  AppendQuoted(&quoted, all);
  for (const char c : quoted) EXPECT_FALSE(static_cast<uint8_t>(c) < 0x20 || c == 0x7F);
  EXPECT_EQ(Parse(quoted)->root().string(), all);
  quoted.clear();
  AppendQuoted(&quoted, "\xC3\xA9");
  EXPECT_EQ(quoted, "\"\xC3\xA9\"") << "text that is not ASCII is kept";
}

TEST(JsonWriter, DoublesReadBackWithTheFewestDigits) {
  const std::pair<double, const char*> kTable[] = {
      {0.1, "0.1"},    {1.0, "1"},         {-0.0, "-0"},
      {1e22, "1e+22"}, {5e-324, "5e-324"}, {0.30000000000000004, "0.30000000000000004"}};
  for (const auto& [value, text] : kTable) {
    Writer out;
    out.Double(value);
    EXPECT_EQ(out.text(), text);
    EXPECT_EQ(Parse(out.text())->root().AsDouble(), value);
  }
}

}  // namespace
}  // namespace slm::json
