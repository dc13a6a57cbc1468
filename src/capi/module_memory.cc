// Memory of the WebAssembly module. An allocation that fails leaves its sizes for the host and traps, since
// nothing can unwind without exceptions; nothrow ones return null, as everywhere.
#include <cstdint>
#include <cstdlib>
#include <new>

#include "capi/slm.h"

namespace {

constexpr uint64_t kPage = 65536;
constexpr uint64_t kMaxBytes = uint64_t{4} << 30;  // --max-memory

uint64_t fault[3] = {};

void* Allocate(size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) {
    fault[0] = size;
    fault[1] = __builtin_wasm_memory_size(0) * kPage;
    fault[2] = kMaxBytes;
  }
  return memory;
}

void* AllocateOrTrap(size_t size) {
  void* memory = Allocate(size);
  if (memory == nullptr) __builtin_trap();
  return memory;
}

}  // namespace

__attribute__((export_name("slm_memory_fault"))) const uint64_t* slm_memory_fault(void) {
  return fault;
}

__attribute__((export_name("slm_alloc"))) void* slm_alloc(size_t size) {
  return Allocate(size);
}

__attribute__((export_name("slm_free"))) void slm_free(void* memory) {
  std::free(memory);
}

void* operator new(size_t size) {
  return AllocateOrTrap(size);
}
void* operator new[](size_t size) {
  return AllocateOrTrap(size);
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return Allocate(size);
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return Allocate(size);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

// libc++ and libc++abi end here where a program breaks their rules; their own versions print, which would
// bring stdio in, and its imports.
namespace std {
inline namespace _LIBCPP_ABI_NAMESPACE {
[[noreturn]] void __libcpp_verbose_abort(const char*, ...) noexcept {
  __builtin_trap();
}
}  // namespace _LIBCPP_ABI_NAMESPACE
}  // namespace std

extern "C" [[noreturn]] void __abort_message(const char*, ...) {
  __builtin_trap();
}
