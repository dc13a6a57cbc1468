// Evaluates the functions of exact_math.h for independent/exact_functions_test.py: reads lines
// "FUNCTION HEXBITS" from standard input, writes the result's bits in hexadecimal, one a line. exp64 and
// exp64_by_integers take and give float64.
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "numeric/exact_exp64.h"
#include "numeric/exact_math.h"
#include "numeric/float_formats.h"

int main() {
  using namespace slm::numeric;
  const struct {
    const char* name;
    float (*function)(float);
  } functions[] = {{"exp", Exp},   {"tanh", Tanh},         {"erf", Erf},         {"sin", Sin},
                   {"cos", Cos},   {"silu", Silu},         {"sigmoid", Sigmoid}, {"gelu_erf", GeluErf},
                   {"sqrt", Sqrt}, {"gelu_tanh", GeluTanh}};
  char line[64];
  while (fgets(line, sizeof line, stdin) != nullptr) {
    char* const space = strchr(line, ' ');
    if (space == nullptr) return 2;
    *space = '\0';
    const char* const name = line;
    char* end = nullptr;
    const uint64_t word = strtoull(space + 1, &end, 16);
    if (end == space + 1 || *end != '\n') return 2;
    if (strncmp(name, "exp64", 5) == 0) {
      const auto wide = std::bit_cast<double>(word);
      const double result = strcmp(name, "exp64") == 0 ? Exp64(wide) : Exp64ByIntegers(wide);
      printf("%016" PRIx64 "\n", std::bit_cast<uint64_t>(result));
      continue;
    }
    const auto bits = static_cast<uint32_t>(word);
    bool known = false;
    for (const auto& entry : functions) {
      if (strcmp(entry.name, name) != 0) continue;
      printf("%08" PRIx32 "\n", BitsOf(entry.function(FromBits(bits))));
      known = true;
    }
    if (!known) return 2;
  }
  return 0;
}
