// Our parser against Python's: thousands of texts, good and damaged, must get the same verdict
// and the same tree (order of members, text of numbers, bits of doubles, bytes of strings).
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>

#include "base/utf8.h"
#include "codec/json.h"

namespace slm::json {
namespace {

class TextGenerator {
 public:
  explicit TextGenerator(uint32_t seed) : random_(seed) {}

  std::string Text() {
    std::string text = Blanks() + Value(4) + Blanks();
    if (random_() % 2 == 0) Damage(&text);
    return text;
  }

 private:
  uint32_t Below(size_t n) { return static_cast<uint32_t>(random_() % n); }
  std::string Blanks() { return Below(4) == 0 ? std::string(1 + Below(3), " \t\n\r"[Below(4)]) : ""; }

  std::string Value(int depth) {
    switch (Below(depth > 0 ? 8 : 5)) {
      case 0:
        return "null";
      case 1:
        return Below(2) == 0 ? "true" : "false";
      case 2:
      case 3:
        return Number();
      case 4:
        return String();
      case 5:
      case 6: {
        std::string text = "{";
        for (uint32_t n = Below(2) == 0 ? Below(4) : Below(40), i = 0; i < n; ++i) {
          text += (i > 0 ? "," : "") + Blanks() + String() + Blanks() + ":" + Blanks() + Value(depth - 1) +
                  Blanks();
        }
        return text + "}";
      }
      default: {
        std::string text = "[";
        for (uint32_t n = Below(5), i = 0; i < n; ++i)
          text += (i > 0 ? "," : "") + Blanks() + Value(depth - 1) + Blanks();
        return text + "]";
      }
    }
  }

  std::string Digits(uint32_t n) {
    std::string digits;
    for (; n > 0; --n) digits += static_cast<char>('0' + Below(10));
    return digits;
  }
  std::string Number() {
    std::string text = Below(3) == 0 ? "-" : "";
    text += Below(4) == 0 ? "0" : static_cast<char>('1' + Below(9)) + Digits(Below(Below(4) == 0 ? 30 : 5));
    if (Below(2) == 0) text += "." + Digits(1 + Below(Below(4) == 0 ? 40 : 6));
    if (Below(3) == 0) {
      const char* const kSigns[] = {"e", "E", "e+", "e-", "E-"};
      text += kSigns[Below(5)] + Digits(1 + Below(3));
    }
    return text;
  }

  std::string String() {
    std::string text = "\"";
    for (uint32_t n = Below(Below(3) == 0 ? 30 : 6); n > 0; --n) {
      switch (Below(10)) {
        case 0:
          text += std::string("\\") + "\"\\/bfnrt"[Below(8)];
          break;
        case 1: {
          char buffer[8];
          std::snprintf(buffer, sizeof buffer, Below(2) == 0 ? "\\u%04x" : "\\u%04X", Below(0xD800));
          text += buffer;
          break;
        }
        case 2: {
          char buffer[16];
          std::snprintf(buffer, sizeof buffer, "\\u%04x\\u%04x", 0xD800 + Below(0x400),
                        0xDC00 + Below(0x400));
          text += buffer;
          break;
        }
        case 3:
          AppendUtf8(&text, static_cast<char32_t>(0xE000 + Below(0x100000)));
          break;
        case 4:
          AppendUtf8(&text, static_cast<char32_t>(0x80 + Below(0x2000)));
          break;
        default:
          text += "abcdefgh 0123456789"[Below(19)];
      }
    }
    return text + "\"";
  }

  void Damage(std::string* text) {
    constexpr std::string_view kPieces = "\"\\{}[],:-+.eEu0d8\x1f\t\xC3\xA9\xFF\xED/N";
    for (uint32_t n = 1 + Below(2); n > 0; --n) {
      const size_t at = Below(text->size() + 1);
      switch (Below(4)) {
        case 0:
          text->erase(at, 1 + Below(3));
          break;
        case 1:
          text->insert(at, 1, kPieces[Below(kPieces.size())]);
          break;
        case 2:
          text->insert(at, text->substr(Below(text->size() + 1), Below(12)));
          break;
        default:
          if (at < text->size()) (*text)[at] = kPieces[Below(kPieces.size())];
      }
    }
  }

  std::mt19937 random_;
};

std::string Spell(Value value) {
  switch (value.kind()) {
    case Kind::kNull:
      return "null";
    case Kind::kTrue:
      return "true";
    case Kind::kFalse:
      return "false";
    case Kind::kNumber: {
      const auto number = value.AsDouble();
      char bits[24] = "overflow";
      if (number) std::snprintf(bits, sizeof bits, "%016lx", std::bit_cast<unsigned long>(*number));
      return "n" + std::string(value.number_text()) + ":" + bits;
    }
    case Kind::kString:
      return "s" + ToHex(AsBytes(value.string()));
    default:
      break;
  }
  const bool is_object = value.is_object();
  std::string text = is_object ? "{" : "[";
  for (const Value child : value.children()) {
    if (text.size() > 1) text += ",";
    if (is_object) text += "s" + ToHex(AsBytes(child.key())) + "=";
    text += Spell(child);
  }
  return text + (is_object ? "}" : "]");
}

TEST(JsonDifferential, AgreesWithPython) {
  constexpr int kTexts = 6000;
  TextGenerator generator(20261130);
  std::vector<std::string> texts;
  for (int i = 0; i < kTexts; ++i) texts.push_back(generator.Text());

  const std::string input = testing::TempDir() + "slm_json_differential_" + std::to_string(getpid()) + ".bin";
  std::ofstream out(input, std::ios::binary);
  for (const std::string& text : texts) {
    uint8_t length[4];
    StoreLe<uint32_t>(length, static_cast<uint32_t>(text.size()));
    out << AsText(length) << text;
  }
  out.close();
  const std::string output = input + ".out";
  const std::string command =
      std::string("python3 ") + SLM_SOURCE_DIR "/src/codec/json_reference.py " + input + " > " + output;
  ASSERT_EQ(std::system(command.c_str()), 0);

  std::ifstream lines(output);
  size_t n_refused = 0;
  for (const std::string& text : texts) {
    std::string expected;
    ASSERT_TRUE(std::getline(lines, expected));
    const auto document = Parse(text);
    const std::string ours = document.has_value() ? Spell(document->root()) : "refused";
    ASSERT_EQ(ours, expected) << EscapeForDisplay(text)
                              << (document.has_value() ? "" : "\n" + document.error().ToString());
    n_refused += document.has_value() ? 0u : 1u;
    if (!document.has_value()) ASSERT_LE(*document.error().byte_offset, text.size());
  }
  EXPECT_GT(n_refused, kTexts / 5u);
  EXPECT_LT(n_refused, kTexts * 4u / 5u);
}

}  // namespace
}  // namespace slm::json
