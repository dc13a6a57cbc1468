#include "sampler/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

namespace slm {
namespace {

StopStrings Make(std::vector<std::string> strings) {
  Result<StopStrings> made = StopStrings::Create(std::move(strings));
  EXPECT_TRUE(made.has_value());
  return *std::move(made);
}

// SMP-04. A string that is split over tokens; what may be its head is held back, and no more.
TEST(StopStringsTest, FindsAStringAcrossTokens) {
  StopStrings stop = Make({"\nUser:"});
  EXPECT_EQ(stop.Push("Hi\n"), "Hi");
  EXPECT_EQ(stop.Push("Us"), "");
  EXPECT_EQ(stop.Push("eless\nUser"), "\nUseless");
  EXPECT_EQ(stop.matched(), std::nullopt);
  EXPECT_EQ(stop.Push(": more"), "");
  EXPECT_EQ(stop.matched(), 0u);
  EXPECT_EQ(stop.Push("x"), "");
  EXPECT_EQ(stop.Finish(), "");
}

TEST(StopStringsTest, GivesBackWhatItHeldWhenTheStreamEnds) {
  StopStrings stop = Make({"</s>"});
  EXPECT_EQ(stop.Push("a</"), "a");
  EXPECT_EQ(stop.Push(""), "");
  EXPECT_EQ(stop.Finish(), "</");
}

TEST(StopStringsTest, TakesTheLongestOfThoseThatEndTogether) {
  StopStrings stop = Make({"bc", "abc", "abcd"});
  EXPECT_EQ(stop.Push("xabcd"), "x");
  EXPECT_EQ(stop.matched(), 1u);
}

TEST(StopStringsTest, RefusesAnEmptyString) {
  const Result<StopStrings> made = StopStrings::Create({"a", ""});
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::kSampleValue);
  EXPECT_EQ(made.error().field, "stop[1]");
}

// Against the definition: the first end of any string, then the longest that ends there. The cut of
// the stream into tokens makes no difference.
TEST(StopStringsTest, AgreesWithTheDefinitionForEveryCut) {
  std::mt19937 random(7);
  const auto text = [&](size_t length) {
    std::string made;
    while (made.size() < length) made.push_back(static_cast<char>('a' + random() % 2));
    return made;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> strings;
    for (uint32_t i = 0; i <= random() % 3; ++i) strings.push_back(text(1 + random() % 6));
    const std::string stream = text(random() % 30);
    std::string want = stream;
    for (size_t end = 1; end <= stream.size() && want.size() == stream.size(); ++end) {
      size_t longest = 0;
      for (const std::string& string : strings) {
        if (stream.substr(0, end).ends_with(string)) longest = std::max(longest, string.size());
      }
      if (longest > 0) want = stream.substr(0, end - longest);
    }
    StopStrings stop = Make(strings);
    std::string got;
    for (size_t at = 0; at < stream.size();) {
      const size_t length = std::min<size_t>(1 + random() % 5, stream.size() - at);
      got += stop.Push(std::string_view(stream).substr(at, length));
      EXPECT_TRUE(want.starts_with(got)) << "showed " << got << " of " << want;
      at += length;
    }
    got += stop.Finish();
    ASSERT_EQ(got, want) << stream;
  }
}

}  // namespace
}  // namespace slm
