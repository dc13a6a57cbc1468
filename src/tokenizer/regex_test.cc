// The regular expression engine (TOK-07). Expected matches were given by the reference library
// (tokenizers 0.23.3) for the same patterns and texts.
#include "tokenizer/regex.h"

#include <gtest/gtest.h>

namespace slm::tokenizer {
namespace {

// "0-2 3-5" or the error's code.
std::string Matches(std::string_view pattern, std::string_view text) {
  const auto regex = Regex::Compile(pattern);
  if (!regex) return std::string(Info(regex.error().code).name);
  RegexSearch search(**regex, text);
  std::string out;
  while (true) {
    const auto match = search.Next();
    if (!match) return std::string(Info(match.error().code).name);
    if (!*match) return out;
    if ((*match)->begin == (*match)->end) continue;  // the reference drops empty pieces
    out += (out.empty() ? "" : " ") + std::to_string((*match)->begin) + "-" + std::to_string((*match)->end);
  }
}

TEST(Regex, Tok07MatchesOfTheReference) {
  const struct {
    const char* pattern;
    const char* text;
    const char* want;
  } cases[] = {{"a{3,1}", "aaaaa", "0-3 3-5"},
               {"a{2}?", "aaaa", "0-2 2-4"},
               {"a{1,2}?", "aaaa", "0-1 1-2 2-3 3-4"},
               {"a{,2}", "aaa", "0-2 2-3"},
               {"a{,}", "a{,}", "0-4"},
               {"a{x", "a{x", "0-3"},
               {"a*+a", "aaa", ""},
               {"x(?i)a|b", "xA xB B", "0-2 3-5"},
               {"(?m:.)", "\n", "0-1"},
               {"(?x: a b )", "ab a b", "0-2"},
               {"(?<n>a)\\k<n>", "aa", "0-2"},
               {"(?<=a|bc)x", "ax bcx", "1-2 5-6"},
               {"(?<=a+)x", "aax", "2-3"},
               {"(?<=a*)x", "aax x", "2-3 4-5"},
               {"(?<!a|bc)x", "ax bcx dx", "8-9"},
               {"(?<=(a))x", "ax", "1-2"},
               {"(?<=^a)x", "ax", "1-2"},
               {"[]a]", "a]", "0-1 1-2"},
               {"[a-c&&b-d]", "abcd", "1-2 2-3"},
               {"[^a-c&&b-d]", "abcd", "0-1 3-4"},
               {"[a-z&&[aeiou]&&[^e]]", "aei", "0-1 2-3"},
               {"\\101", "A", "0-1"},
               {"\\p{^L}", "a1", "1-2"},
               {"\\p{ L u }", "Aa", "0-1"},
               {"(?:|a)*", "aa", ""},
               {"(?:a|)*", "aa", "0-2"},
               {"(?:a*)*", "aa", "0-2"},
               {"(?:a*?)*", "aa", ""},
               {"(?:a?)*?b", "aab", "0-3"},
               {"(?i:sss)", "sss \xC3\x9Fs s\xC3\x9F", "0-3 4-7 8-11"},
               {"(?i:[k-l])", "kK\xE2\x84\xAAl", "0-1 1-2 2-5 5-6"},
               {"(?i:i)", "iI\xC4\xB0\xC4\xB1", "0-1 1-2"},
               {"\\bx", "x\xC2\xB2x", "0-1"},
               {"\\Aa|\\Ga", "aaa", "0-1 1-2 2-3"},
               {"a\\Z", "a\n", "0-1"},
               {"\\R", "\r\n\n\r\x0b", "0-2 2-3 3-4 4-5"},
               {"\\xe3\\x81\\x82", "\xE3\x81\x82", "0-3"},
               {"(?:ab){2,3}?", "ababab", "0-4"},
               {"[[:^alpha:]]", "a1", "1-2"}};
  for (const auto& one : cases) EXPECT_EQ(Matches(one.pattern, one.text), one.want) << one.pattern;
}

// What Oniguruma does not compile either, and what lies outside the subset.
TEST(Regex, Tok07RefusalsHaveAPlace) {
  const struct {
    const char* pattern;
    uint64_t offset;
  } cases[] = {{"*a", 0},      {"a)", 1},        {"x(a", 1},        {"[a", 0},        {"\\", 0},
               {"[z-a]", 1},   {"[]", 0},        {"ab\\p{Foo}", 2}, {"\\u12", 0},     {"a{100001}", 1},
               {"(?=a)*a", 5}, {"(?<!(a))x", 4}, {"(?s:.)", 0},     {"[a-\\d]", 1},   {"(a+)\\1", 4},
               {"\\8", 0},     {"x\\K", 1},      {"(?~ab)", 0},     {"(a)\\g<1>", 3}, {"[[:foo:]]", 1},
               {"\\xe3", 0},   {"a\xfa", 1},     {"[[:a\xf0", 4}};
  for (const auto& one : cases) {
    const auto regex = Regex::Compile(one.pattern);
    ASSERT_FALSE(regex.has_value()) << one.pattern;
    EXPECT_EQ(regex.error().code, ErrorCode::kTokRegex) << one.pattern;
    EXPECT_EQ(regex.error().byte_offset, one.offset) << one.pattern;
  }
  EXPECT_EQ(Matches("(?:(?:(?:a{200}){200}){200})", "a"), "TOK-REGEX");
  EXPECT_EQ(Matches(std::string(1000, '('), "a"), "TOK-REGEX");
}

// Patterns that take exponential or quadratic time by plain backtracking.
TEST(Regex, Tok05NoPatternHangs) {
  const std::string letters(100000, 'a');
  for (const char* pattern :
       {"(a*)*b", "(?:a|a)*b", "(?:a|aa)+$b", "(a+)+b", "a*a*a*a*b", "(?:a?){50}a{50}b", "(?=(?:a*)*b)",
        "(?>(?:a|aa)*)b", "(?<=(?:a|aa)*)b", "(?:a*?)*?b", "(?:(?=.*x)a)*b", "(?:a(?=.*b))*c"}) {
    EXPECT_EQ(Matches(pattern, letters), "") << pattern;
  }
  EXPECT_EQ(Matches("(?:a|aa)+", letters), "0-100000");
  EXPECT_EQ(Matches("(?:a(?=.*c))+c", letters + "c"), "0-100001");
  // With a back-reference the steps are bounded instead.
  EXPECT_EQ(Matches("(a)*(?:a|\\1)*(?:a|\\1)*(?:a|\\1)*b", std::string(3000, 'a')), "LIMIT");
}

}  // namespace
}  // namespace slm::tokenizer
