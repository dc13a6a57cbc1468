// The C ABI's ground: context, result, memory. In every module; the calls of models are in capi_model.cc,
// those of texts in capi_text.cc, those of evidence in capi_evidence.cc.
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "base/bytes.h"
#include "capi/handles.h"
#include "codec/sha256.h"

namespace slm::capi {
namespace {

constexpr uint64_t kMaxRecordBytes = records::kMaxLineBytes;

}  // namespace

std::string_view TextAt(const uint8_t* data, size_t size) {
  return data == nullptr ? std::string_view() : std::string_view(reinterpret_cast<const char*>(data), size);
}

int32_t Refuse(slm_context* context, const Error& error, const records::ErrorPlace& place) {
  context->result = records::ErrorJson(error, place);
  return static_cast<int32_t>(error.code);
}

Error UnknownHandle(std::string_view kind) {
  return MakeError(ErrorCode::kUsage,
                   "no handle of this context: this " + std::string(kind) + " was freed, or never made")
      .Field(kind);
}

int32_t AnswerRecord(slm_context* context, const uint8_t* record, size_t size,
                     const records::Handler& handle) {
  const bool too_long = size > kMaxRecordBytes;
  records::AnsweredLine answer =
      records::AnswerLine(too_long ? std::string() : std::string(TextAt(record, size)), too_long, handle);
  context->result = std::move(answer.text);
  return answer.code ? static_cast<int32_t>(*answer.code) : 0;
}

Result<json::Document> ParseObject(std::string_view text) {
  SLM_ASSIGN(json::Document document, json::Parse(std::string(text), {.max_bytes = kMaxRecordBytes}));
  if (!document.root().is_object())
    return Fail(
        MakeError(ErrorCode::kJsonType, "one JSON object is expected").At(document.root().byte_offset()));
  return document;
}

Error BadOption(json::Value value, std::string_view name, std::string_view what) {
  return MakeError(ErrorCode::kCaseSchema, std::string(name) + " is " + std::string(what))
      .At(value.byte_offset())
      .Field(name);
}

Error TooManyCases() {
  return MakeError(ErrorCode::kLimit, "a cases file of more than 64 MiB").At(kMaxCasesBytes);
}

}  // namespace slm::capi

extern "C" {

SLM_EXPORT(slm_abi_version) uint32_t slm_abi_version(void) {
  return SLM_ABI_VERSION;
}

SLM_EXPORT(slm_context_new) slm_context* slm_context_new(void) {
  return new (std::nothrow) slm_context();
}

SLM_EXPORT(slm_context_free) void slm_context_free(slm_context* context) {
  delete context;
}

SLM_EXPORT(slm_result_data) const uint8_t* slm_result_data(const slm_context* context) {
  return context == nullptr ? nullptr : reinterpret_cast<const uint8_t*>(context->result.data());
}

SLM_EXPORT(slm_result_size) size_t slm_result_size(const slm_context* context) {
  return context == nullptr ? 0 : context->result.size();
}

SLM_EXPORT(slm_sha256) void slm_sha256(const uint8_t* data, size_t size, uint8_t* out) {
  const slm::Hash256 hash = slm::Sha256Of(slm::AsBytes(slm::capi::TextAt(data, size)));
  std::memcpy(out, hash.data(), hash.size());
}

#ifndef __wasm__
// Of the module: module_memory.cc.
SLM_EXPORT(slm_memory_fault) const uint64_t* slm_memory_fault(void) {
  static constexpr uint64_t kNone[3] = {};
  return kNone;
}

SLM_EXPORT(slm_alloc) void* slm_alloc(size_t size) {
  return std::malloc(size == 0 ? 1 : size);
}

SLM_EXPORT(slm_free) void slm_free(void* memory) {
  std::free(memory);
}
#endif

}  // extern "C"
