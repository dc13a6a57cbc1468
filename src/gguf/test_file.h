// For tests: the bytes of a GGUF file, pair by pair, as the format's specification lays them out.
#ifndef SLM_GGUF_TEST_FILE_H_
#define SLM_GGUF_TEST_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace slm::gguf_testing {

// Little-endian; beyond 8 bytes, zeros.
inline std::string Number(uint64_t value, int n_bytes) {
  std::string bytes;
  for (int i = 0; i < n_bytes; ++i) bytes += i < 8 ? static_cast<char>(value >> (8 * i) & 0xffU) : '\0';
  return bytes;
}
inline std::string Text(const std::string& text) {
  return Number(text.size(), 8) + text;
}
inline std::string TextPair(const std::string& key, const std::string& text) {
  return Text(key) + Number(8, 4) + Text(text);
}
inline std::string IdPair(const std::string& key, uint64_t id) {
  return Text(key) + Number(4, 4) + Number(id, 4);
}
inline std::string TextsPair(const std::string& key, const std::vector<std::string>& texts) {
  std::string bytes = Text(key) + Number(9, 4) + Number(8, 4) + Number(texts.size(), 8);
  for (const std::string& text : texts) bytes += Text(text);
  return bytes;
}
inline std::string File(const std::vector<std::string>& pairs, uint64_t version = 3) {
  std::string bytes = "GGUF" + Number(version, 4) + Number(0, 8) + Number(pairs.size(), 8);
  for (const std::string& pair : pairs) bytes += pair;
  return bytes;
}

}  // namespace slm::gguf_testing

#endif  // SLM_GGUF_TEST_FILE_H_
