// Times the tokenizer on documents, for bench/tokenizer.py: `tokenizer_bench FILE DOCUMENTS MODE PASSES`.
//
// DOCUMENTS holds, for each document, its length in 4 bytes (little-endian) and its bytes. MODE is ids,
// offsets or general. A fresh tokenizer goes over all documents PASSES times. Prints one line of JSON with
// the seconds of user and system time of loading and of each pass; with MODE `dump`, the ids themselves as
// the same kind of file.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace {

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

long PeakKib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

std::string ReadFile(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

[[noreturn]] void Stop(const std::string& message) {
  std::cerr << "tokenizer_bench: " << message << '\n';
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) Stop("usage: tokenizer_bench FILE DOCUMENTS ids|offsets|full|dump PASSES");
  const std::string mode = argv[3];
  const std::string data = ReadFile(argv[2]);
  std::vector<std::string_view> documents;
  for (size_t at = 0; at + 4 <= data.size();) {
    uint32_t size = 0;
    std::memcpy(&size, data.data() + at, 4);
    documents.push_back(std::string_view(data).substr(at + 4, size));
    at += 4 + size;
  }
  std::string json = ReadFile(argv[1]);
  const double before_load = CpuSeconds();
  auto tokenizer = slm::tokenizer::Tokenizer::FromJson(std::move(json), {.lenient = true});
  if (!tokenizer) Stop(tokenizer.error().message);
  std::printf("{\"load\": %.6f, \"passes\": [", CpuSeconds() - before_load);
  const slm::tokenizer::EncodeOptions options = {
      .add_special_tokens = false, .truncation = false, .padding = false};
  std::vector<uint32_t> ids;
  std::vector<std::pair<uint64_t, uint64_t>> offsets;
  const long before = PeakKib();
  uint64_t n_ids = 0;
  for (int pass = 0; pass < std::atoi(argv[4]); ++pass) {
    const double start = CpuSeconds();
    n_ids = 0;
    for (const std::string_view document : documents) {
      ids.clear();
      offsets.clear();
      if (mode == "full") {
        const auto encoding = (*tokenizer)->Encode(document, options);
        if (!encoding) Stop(encoding.error().message);
        n_ids += encoding->ids.size();
        continue;
      }
      const auto done =
          (*tokenizer)->EncodeIds(document, options, &ids, mode == "offsets" ? &offsets : nullptr);
      if (!done) Stop(done.error().message);
      n_ids += ids.size();
      if (mode == "dump") {
        const auto size = static_cast<uint32_t>(ids.size() * 4);
        std::fwrite(&size, 4, 1, stderr);
        std::fwrite(ids.data(), 1, size, stderr);
      }
    }
    std::printf("%s%.6f", pass == 0 ? "" : ", ", CpuSeconds() - start);
  }
  std::printf("], \"ids\": %llu, \"grown_kib\": %ld}\n", static_cast<unsigned long long>(n_ids),
              PeakKib() - before);
  return 0;
}
