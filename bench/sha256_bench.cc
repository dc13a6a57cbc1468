// SHA-256 of src/codec against `openssl speed -evp sha256`, 16 KiB blocks.
//
// Both are measured in turns in one run, since the clock of a busy machine drifts: a second of
// openssl speed, a second of ours, and so on. Prints both rates and the ratio of the medians; the
// exit status is 1 below 0.90.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "codec/sha256.h"

namespace {

constexpr size_t kBlockBytes = 16384;
constexpr double kSeconds = 1.0;
constexpr int kRounds = 7;
constexpr double kFloor = 0.90;

double OursBytesPerSecond() {
  const slm::Bytes block(kBlockBytes, 0x5A);
  uint64_t n_blocks = 0;
  uint8_t sink = 0;
  const auto start = std::chrono::steady_clock::now();
  double elapsed = 0;
  while (elapsed < kSeconds) {
    for (int i = 0; i < 64; ++i) sink = static_cast<uint8_t>(sink ^ slm::Sha256Of(block)[0]);
    n_blocks += 64;
    elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  if (sink == 1) std::fputs("", stdout);  // the digests are used
  return static_cast<double>(n_blocks) * static_cast<double>(kBlockBytes) / elapsed;
}

// The last number of the result line, in thousands of bytes a second ("+F" line: "+F:22:sha256:...").
double OpensslBytesPerSecond() {
  FILE* pipe = popen("openssl speed -mr -elapsed -seconds 1 -bytes 16384 -evp sha256 2>/dev/null", "r");
  if (pipe == nullptr) return 0;
  char line[512];
  double rate = 0;
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    const std::string text = line;
    if (text.starts_with("+F:")) rate = std::strtod(text.c_str() + text.rfind(':') + 1, nullptr);
  }
  pclose(pipe);
  return rate;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main() {
  std::vector<double> ours;
  std::vector<double> openssl;
  for (int round = 0; round < kRounds; ++round) {
    openssl.push_back(OpensslBytesPerSecond());
    ours.push_back(OursBytesPerSecond());
  }
  if (Median(openssl) == 0) {
    std::puts("not-run: sha256_bench: the openssl command");
    return 2;
  }
  const double ratio = Median(ours) / Median(openssl);
  std::printf("openssl speed -evp sha256, 16 KiB: %8.1f MB/s\n", Median(openssl) / 1e6);
  std::printf("slm::Sha256Of, 16 KiB:             %8.1f MB/s\n", Median(ours) / 1e6);
  std::printf("ratio of the medians of %d rounds:  %8.3f (at least %.2f is asked for)\n", kRounds, ratio,
              kFloor);
  return ratio >= kFloor ? 0 : 1;
}
