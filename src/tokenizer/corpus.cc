#include "tokenizer/corpus.h"

#include <string_view>

#include "tokenizer/aligned_text.h"

namespace slm::tokenizer {
namespace {

std::string Utf8(std::u32string_view scalars) {
  std::string out;
  for (const char32_t scalar : scalars) AppendScalar(&out, scalar);
  return out;
}

void AddWhiteSpace(std::vector<std::string>* out) {
  for (const char32_t space : WhiteSpaceScalars()) {
    const std::string one = Utf8({&space, 1});
    for (const std::string& text : {one, one + one, "a" + one + "b", one + "a", "a" + one, one + " " + "1"}) {
      out->push_back(text);
    }
  }
  for (const std::string_view text :
       {"\r", "\n", "\r\n", "a\r\nb", "\r\n\r\n ", " \n \n", "  a  ", "   ", "\t\t"}) {
    out->emplace_back(text);
  }
}

void AddScripts(std::vector<std::string>* out) {
  constexpr std::u32string_view kTexts[] = {
      U"\u00E9",
      U"e\u0301",
      U"\u1E69 s\u0323\u0307 s\u0307\u0323",
      U"a\u0300\u0301\u0302\u0303\u0304",
      U"\uFB01\uFB02 \u2460 \u212B \u2126 \uFF21",
      U"I\u0130\u0131i \u00DF\u1E9E \u03A3\u03C3\u03C2 \u01C4\u01C5\u01C6",
      U"\uD55C\uAD6D\uC5B4 \u1112\u1161\u11AB\u1100\u1173\u11AF",
      U"\u65E5\u672C\u8A9E \u4E2D \u6587",
      U"\u3042\u30A2\uFF71\uFF76\uFF9E\u304B\u3099",
      U"\u0E44\u0E17\u0E22\u0E41\u0E25\u0E30",
      U"\u0915\u094D\u0937\u0924\u094D\u0930",
      U"\u0627\u0644\u0633\u0644\u0627\u0645 \u200F\u05E9\u05DC\u05D5\u05DD\u200E \u202B\u0627\u202C",
      U"\U0001F600\U0001F468\u200D\U0001F469\u200D\U0001F467\U0001F1E9\U0001F1EA\U0001F44D\U0001F3FD",
      U"\u2764\uFE0F",
      U"a\u200Bb\u200Cc\u200Dd\u2060e\uFEFFf\u00ADg",
      U"\u0001\u0002\u001F\u007F\u0080\u0085\u009F",
      U"\uFDD0\uFFFE\uFFFF\U0001FFFE\U0010FFFF",
      U"\uE000\uF8FF\U000F0000\U0010FFFD",
      U"\u0663\u096A\u17E5\uFF15\U0001D7D9\u00B2\u00BD\u2167",
      U"\u2581\u2581a \u2581b\u0120c\u010Ad",
      U"\uFFFD\uFFFD"};
  for (const std::u32string_view text : kTexts) out->push_back(Utf8(text));
  out->push_back(std::string(1, '\0'));
  out->push_back(std::string("a\0b", 3));
}

void AddWriting(std::vector<std::string>* out) {
  for (const std::string_view text :
       {"", "a", "Hello, world!", "It's I'd we'll you're they've I'm don't 'tis 'S 'LL",
        "https://a.example/b?c=d&e=f#g", "name@host.example", "{\"key\": [1, 2.50, null]}",
        "# Title\n\n- **bold** `code`\n1. one", "for (i = 0; i < 10; ++i) {\n\tx += y[i];\n}",
        "x=1;y=-2.5e10", "1234567890 3.14159 1,000,000 0x1F 12:34", "!?.,;:()[]{}<>/\\|@#$%^&*-_=+~`\"'",
        "camelCase snake_case KEBAB-case", "<0x41><0xC3><0xA9> <unk> <s> </s> [CLS]", "..............",
        "\xC2\xA1\xC2\xA2"}) {
    out->emplace_back(text);
  }
  for (const std::string_view spaces : {"", " ", "  ", "   "}) {
    for (const std::string_view digits : {"1", "12", "123", "1a", "a1"}) {
      for (const std::string_view before : {"", "a", "\n"}) {
        out->push_back(std::string(before) + std::string(spaces) + std::string(digits));
      }
    }
  }
  out->push_back(std::string(300, 'a'));
  out->push_back(std::string(300, ' '));
  out->push_back(std::string(100, '7'));
}

}  // namespace

const std::vector<char32_t>& WhiteSpaceScalars() {
  static const std::vector<char32_t> kScalars = {
      0x09,   0x0A,   0x0B,   0x0C,   0x0D,   0x20,   0x85,   0xA0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003,
      0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
  return kScalars;
}

std::vector<std::string> MechanicalCorpus() {
  std::vector<std::string> out;
  AddWriting(&out);
  AddWhiteSpace(&out);
  AddScripts(&out);
  return out;
}

}  // namespace slm::tokenizer
