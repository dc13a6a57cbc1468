// Evaluates the functions of exact_math.h for independent/exact_functions_test.py: reads lines
// "FUNCTION HEXBITS" from standard input, writes the result's bits in hexadecimal, one a line.
#include <cinttypes>
#include <cstdio>
#include <cstring>

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
  char name[32];
  uint32_t bits = 0;
  while (scanf("%31s %" SCNx32, name, &bits) == 2) {
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
