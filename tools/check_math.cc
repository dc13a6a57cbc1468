// Checks the correctly rounded functions of src/numeric/exact_math.h on all 2^32 inputs against
// an independent reference, and prints one JSON object for each function:
//   {"function", "inputs", "mismatches", "decided_by_mpfr", "outputs_sha256"}
// The reference is the C library's double function where every number within the bound on its
// error rounds alike, and MPFR with 300 bits elsewhere. Output
// bits are hashed in order of the input's bits, as 32-bit little-endian words. (The answer of a
// NaN input is checked to be 0x7fc00000.)
//
// Run by hand (minutes a function); the result is docs/spec/exact-v1-math.json:
//   c++ -std=c++23 -O2 -ffp-contract=off -Isrc tools/check_math.cc src/numeric/exact_math.cc \
//       src/numeric/float_formats.cc -lmpfr -lgmp -lcrypto -lpthread -o check_math
//   ./check_math exp sigmoid ...        (no name: all; -hard N prints the N hardest inputs too)
#include <mpfr.h>
#include <openssl/evp.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "numeric/exact_math.h"
#include "numeric/float_formats.h"

namespace {

using slm::numeric::BitsOf;
using slm::numeric::FromBits;

constexpr mpfr_prec_t kPrecision = 300;

// The exact function on MPFR numbers; `y` has kPrecision bits.
using Precise = void (*)(mpfr_t y, mpfr_t x);
using Wide = double (*)(double);

struct Function {
  const char* name;
  float (*candidate)(float);
  Wide wide;
  Precise precise;
  double wide_error;  // bound on the relative error of `wide`
};

struct Number {
  mpfr_t value;
  Number() { mpfr_init2(value, kPrecision); }
  ~Number() { mpfr_clear(value); }
  Number(const Number&) = delete;
  Number& operator=(const Number&) = delete;
};

void PreciseSigmoid(mpfr_t y, mpfr_t x) {
  mpfr_neg(y, x, MPFR_RNDN);
  mpfr_exp(y, y, MPFR_RNDN);
  mpfr_add_ui(y, y, 1, MPFR_RNDN);
  mpfr_ui_div(y, 1, y, MPFR_RNDN);
}
void PreciseSilu(mpfr_t y, mpfr_t x) {
  PreciseSigmoid(y, x);
  mpfr_mul(y, y, x, MPFR_RNDN);
}
void PreciseGeluErf(mpfr_t y, mpfr_t x) {
  Number root;
  mpfr_sqrt_ui(root.value, 2, MPFR_RNDN);
  mpfr_div(y, x, root.value, MPFR_RNDN);
  mpfr_neg(y, y, MPFR_RNDN);
  mpfr_erfc(y, y, MPFR_RNDN);
  mpfr_mul(y, y, x, MPFR_RNDN);
  mpfr_div_2ui(y, y, 1, MPFR_RNDN);
}
void PreciseGeluTanh(mpfr_t y, mpfr_t x) {
  Number constant;
  mpfr_pow_ui(y, x, 3, MPFR_RNDN);
  mpfr_mul_ui(y, y, 44715, MPFR_RNDN);
  mpfr_div_ui(y, y, 1000000, MPFR_RNDN);
  mpfr_add(y, y, x, MPFR_RNDN);
  mpfr_const_pi(constant.value, MPFR_RNDN);
  mpfr_ui_div(constant.value, 8, constant.value, MPFR_RNDN);  // 2 sqrt(2 / pi) = sqrt(8 / pi)
  mpfr_sqrt(constant.value, constant.value, MPFR_RNDN);
  mpfr_mul(y, y, constant.value, MPFR_RNDN);
  PreciseSigmoid(y, y);
  mpfr_mul(y, y, x, MPFR_RNDN);
}

double WideSigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}
double WideSilu(double x) {
  return x / (1.0 + std::exp(-x));
}
double WideGeluErf(double x) {
  return 0.5 * x * std::erfc(-x * 0.70710678118654752440);
}
double WideGeluTanh(double x) {
  const double gate = 1.59576912160573071176 * (x + 0.044715 * x * x * x);
  return x / (1.0 + std::exp(-gate));
}

// The C library documents errors of 1 to 5 units in the last place (2^-50); the argument of an
// exponential or erfc of size 100 adds up to 2^-44.
const Function kFunctions[] = {
    {"exp", slm::numeric::Exp, std::exp, [](mpfr_t y, mpfr_t x) { mpfr_exp(y, x, MPFR_RNDN); }, 0x1p-48},
    {"sigmoid", slm::numeric::Sigmoid, WideSigmoid, PreciseSigmoid, 0x1p-48},
    {"silu", slm::numeric::Silu, WideSilu, PreciseSilu, 0x1p-48},
    {"sin", slm::numeric::Sin, std::sin, [](mpfr_t y, mpfr_t x) { mpfr_sin(y, x, MPFR_RNDN); }, 0x1p-48},
    {"cos", slm::numeric::Cos, std::cos, [](mpfr_t y, mpfr_t x) { mpfr_cos(y, x, MPFR_RNDN); }, 0x1p-48},
    {"tanh", slm::numeric::Tanh, std::tanh, [](mpfr_t y, mpfr_t x) { mpfr_tanh(y, x, MPFR_RNDN); }, 0x1p-48},
    {"erf", slm::numeric::Erf, std::erf, [](mpfr_t y, mpfr_t x) { mpfr_erf(y, x, MPFR_RNDN); }, 0x1p-48},
    {"gelu_erf", slm::numeric::GeluErf, WideGeluErf, PreciseGeluErf, 0x1p-42},
    {"gelu_tanh", slm::numeric::GeluTanh, WideGeluTanh, PreciseGeluTanh, 0x1p-42},
    {"sqrt", slm::numeric::Sqrt, std::sqrt, [](mpfr_t y, mpfr_t x) { mpfr_sqrt(y, x, MPFR_RNDN); }, 0x1p-50},
};

struct Hard {
  double distance;
  uint32_t bits;
  bool operator<(const Hard& other) const { return distance < other.distance; }
};

struct Tally {
  uint64_t mismatches = 0;
  std::vector<Hard> hard;  // inputs that MPFR decided, with the distance from a boundary
  uint64_t precise = 0;
};

// The 300-bit value rounded once to float32, subnormal numbers included. Notes how far it lies
// from a boundary between two float32, relative to its size; 0 would be a tie.
float RoundPrecise(const Function& function, uint32_t bits, Tally* tally) {
  Number input;
  Number output;
  Number boundary;
  mpfr_set_flt(input.value, FromBits(bits), MPFR_RNDN);
  function.precise(output.value, input.value);
  const float nearest = mpfr_get_flt(output.value, MPFR_RNDN);
  ++tally->precise;
  double distance = 1.0;
  for (const float other : {nextafterf(nearest, INFINITY), nextafterf(nearest, -INFINITY)}) {
    const double middle = (static_cast<double>(nearest) + static_cast<double>(other)) / 2;
    mpfr_set_d(boundary.value, middle, MPFR_RNDN);
    mpfr_sub(boundary.value, boundary.value, output.value, MPFR_RNDN);
    mpfr_div(boundary.value, boundary.value, output.value, MPFR_RNDN);
    distance = std::fmin(distance, std::fabs(mpfr_get_d(boundary.value, MPFR_RNDN)));
  }
  tally->hard.push_back({distance, bits});
  return nearest;
}

uint32_t Reference(const Function& function, uint32_t bits, Tally* tally) {
  const float x = FromBits(bits);
  if (x != x) return 0x7fc00000u;
  const double wide = function.wide(static_cast<double>(x));
  if (wide != wide) return 0x7fc00000u;
  const double size = std::fabs(wide);
  if (size > 0x1p129) return wide > 0 ? 0x7f800000u : 0xff800000u;
  if (size < 0x1p-152) return std::signbit(wide) ? 0x80000000u : 0u;  // nearest is a zero
  const double margin = size * function.wide_error;
  const auto below = static_cast<float>(wide - margin);
  const auto above = static_cast<float>(wide + margin);
  return below == above ? BitsOf(below) : BitsOf(RoundPrecise(function, bits, tally));
}

void CheckOne(const Function& function, uint32_t bits, uint32_t got, Tally* tally) {
  // The double formulas of silu and gelu give a NaN at minus infinity, where the limit is -0.
  const bool limit = bits == 0xff800000u && strstr(function.name, "lu") != nullptr;
  const uint32_t want = limit ? 0x80000000u : Reference(function, bits, tally);
  if (got != want && tally->mismatches++ < 5) {
    fprintf(stderr, "%s(%08x): got %08x, want %08x\n", function.name, bits, got, want);
  }
}

void Check(const Function& function, size_t n_hard) {
  constexpr uint64_t kChunk = uint64_t{1} << 22;
  constexpr unsigned kThreads = 2;
  Tally total;
  EVP_MD_CTX* hash = EVP_MD_CTX_new();
  EVP_DigestInit_ex(hash, EVP_sha256(), nullptr);
  std::vector<uint32_t> outputs(kChunk * kThreads);
  for (uint64_t start = 0; start < uint64_t{1} << 32; start += kChunk * kThreads) {
    Tally tallies[kThreads];
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (uint64_t i = 0; i < kChunk; ++i) {
          const auto bits = static_cast<uint32_t>(start + t * kChunk + i);
          const uint32_t got = BitsOf(function.candidate(FromBits(bits)));
          outputs[t * kChunk + i] = got;
          CheckOne(function, bits, got, &tallies[t]);
        }
        mpfr_free_cache();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EVP_DigestUpdate(hash, outputs.data(), outputs.size() * sizeof(uint32_t));
    for (const Tally& tally : tallies) {
      total.mismatches += tally.mismatches;
      total.precise += tally.precise;
      total.hard.insert(total.hard.end(), tally.hard.begin(), tally.hard.end());
    }
    if (total.hard.size() > 100000) {
      std::sort(total.hard.begin(), total.hard.end());
      total.hard.resize(1000);
    }
  }
  unsigned char digest[32];
  EVP_DigestFinal_ex(hash, digest, nullptr);
  EVP_MD_CTX_free(hash);
  std::string hex;
  for (const unsigned char byte : digest) {
    char text[3];
    snprintf(text, sizeof text, "%02x", byte);
    hex += text;
  }
  printf(
      "{\"function\": \"%s\", \"inputs\": 4294967296, \"mismatches\": %llu, \"decided_by_mpfr\": %llu, "
      "\"outputs_sha256\": \"%s\"",
      function.name, static_cast<unsigned long long>(total.mismatches),
      static_cast<unsigned long long>(total.precise), hex.c_str());
  if (n_hard > 0) {
    std::sort(total.hard.begin(), total.hard.end());
    printf(", \"hardest\": [");
    for (size_t i = 0; i < std::min(n_hard, total.hard.size()); ++i) {
      printf("%s\"%08x\"", i == 0 ? "" : ", ", total.hard[i].bits);
    }
    printf("]");
  }
  printf("}\n");
  fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  size_t n_hard = 0;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "-hard") == 0 && i + 1 < argc) {
      n_hard = std::stoul(argv[++i]);
    } else {
      names.emplace_back(argv[i]);
    }
  }
  for (const Function& function : kFunctions) {
    if (names.empty() || std::find(names.begin(), names.end(), function.name) != names.end())
      Check(function, n_hard);
  }
  return 0;
}
