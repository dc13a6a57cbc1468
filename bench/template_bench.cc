// Chat templates: conversion, rendering, memory. Reads lines of JSON on standard input and answers each:
//   {"source": "...", "context": "...", "special_tokens": {...}, "renders": N}
// -> {"convert_us", "render_us" (mean of N, context made before, owners by number), "whole_us" (from the
// context's
//     JSON text to spans with the names of their owners), "output", "context_bytes", "output_bytes",
//     "peak_bytes" (allocated at once while rendering)} or {"error"}.
// `./dev bench template` drives it in turns with the reference.
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <new>
#include <string>

#include "chat/template.h"
#include "codec/json.h"

namespace {

// Counted only where memory is measured, not where time is.
bool counts = false;
size_t live_bytes = 0;
size_t peak_bytes = 0;

// Of this process: the machine may do other things.
double CpuMicroseconds() {
  timespec now{};
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}
double MicrosecondsSince(double start) {
  return CpuMicroseconds() - start;
}

std::string Answer(const std::string& line) {
  slm::json::Writer out;
  out.BeginObject();
  const auto fail = [&out](const slm::Error& error) {
    out.Key("error").String(error.ToString()).EndObject();
    return out.Take();
  };
  const auto request = slm::json::Parse(line);
  if (!request) return fail(request.error());
  const auto root = request->root();
  const std::string source(root.Find("source")->string());
  const double convert_start = CpuMicroseconds();
  const auto compiled = slm::chat::Template::Compile(source);
  const double convert_us = MicrosecondsSince(convert_start);
  if (!compiled) return fail(compiled.error());
  slm::chat::RenderOptions options;
  options.clock = "2024-07-26T13:45:09";
  for (const auto token : root.Find("special_tokens")->children())
    options.special_tokens.emplace_back(token.key(), token.string());
  // A document of its own: what the ratio counts begins after the context was parsed.
  const std::string text(root.Find("context")->string());
  const auto document = slm::json::Parse(text);
  if (!document) return fail(document.error());
  const auto context = slm::chat::Context::Make(document->root(), options.special_tokens);
  if (!context) return fail(context.error());
  const auto first = compiled->Render(*context, options);
  if (!first) return fail(first.error());
  live_bytes = peak_bytes = 0;
  counts = true;
  {
    const auto again = compiled->Render(*context, options);
  }
  counts = false;
  const size_t peak = peak_bytes;
  const uint64_t n = *root.Find("renders")->AsUint();
  const double start = CpuMicroseconds();
  for (uint64_t i = 0; i < n; ++i) {
    const auto rendered = compiled->Render(*context, options);
    if (rendered->text.size() != first->text.size() || rendered->segments.size() != first->segments.size())
      std::abort();
  }
  const double render_us = MicrosecondsSince(start) / static_cast<double>(n);
  const double whole_start = CpuMicroseconds();
  for (uint64_t i = 0; i < n; ++i) {
    const auto parsed = slm::json::Parse(text);
    const auto rendered = compiled->Render(parsed->root(), options);
    if (rendered->Spans().size() != first->segments.size()) std::abort();
  }
  const double whole_us = MicrosecondsSince(whole_start) / static_cast<double>(n);
  out.Key("convert_us").Double(convert_us).Key("render_us").Double(render_us);
  out.Key("whole_us").Double(whole_us);
  out.Key("output").String(first->text).Key("context_bytes").Uint(text.size());
  out.Key("output_bytes").Uint(first->text.size()).Key("peak_bytes").Uint(peak).EndObject();
  return out.Take();
}

}  // namespace

void* operator new(size_t n) {
  void* memory = std::malloc(n);
  if (memory == nullptr) std::abort();
  if (!counts) return memory;
  live_bytes += malloc_usable_size(memory);
  if (live_bytes > peak_bytes) peak_bytes = live_bytes;
  return memory;
}
void operator delete(void* memory) noexcept {
  if (counts && memory != nullptr) live_bytes -= malloc_usable_size(memory);
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  operator delete(memory);
}

int main() {
  std::string line;
  while (std::getline(std::cin, line)) std::cout << Answer(line) << std::endl;
  return 0;
}
