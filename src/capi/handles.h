// What the parts of the C ABI share: the context with its handles, and how a call answers. Of this library
// only. One context, one thread at a time.
#ifndef SLM_CAPI_HANDLES_H_
#define SLM_CAPI_HANDLES_H_

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "capi/slm.h"
#include "codec/json.h"
#include "records/record.h"

#ifdef __wasm__
#define SLM_EXPORT(name) __attribute__((export_name(#name)))
#else
#define SLM_EXPORT(name) __attribute__((visibility("default")))
#endif

namespace slm::capi {

// What a handle points at; each kind has a name of its own, kKind.
struct Handle {
  explicit Handle(std::string_view of_kind) : kind(of_kind) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  virtual ~Handle() = default;
  std::string_view kind;
};

}  // namespace slm::capi

struct slm_context {
  std::string result;
  std::vector<std::unique_ptr<slm::capi::Handle>> handles;
};

namespace slm::capi {

inline constexpr auto kNullContext = static_cast<int32_t>(ErrorCode::kUsage);
inline constexpr uint64_t kMaxCasesBytes = uint64_t{64} << 20;

[[nodiscard]] std::string_view TextAt(const uint8_t* data, size_t size);
// Leaves the error's document in the context. Its number.
int32_t Refuse(slm_context* context, const Error& error, const records::ErrorPlace& place = {});
[[nodiscard]] Error UnknownHandle(std::string_view kind);
// One record line, answered as a batch answers it.
int32_t AnswerRecord(slm_context* context, const uint8_t* record, size_t size,
                     const records::Handler& handle);

// LIMIT, of a cases file.
[[nodiscard]] Error TooManyCases();
// A request's text. Errors: those of json::Parse, JSON-TYPE for what is no object.
[[nodiscard]] Result<json::Document> ParseObject(std::string_view text);
[[nodiscard]] Error BadOption(json::Value value, std::string_view name, std::string_view what);

// `write` puts the members of the answer into an open object.
template <typename Write>
int32_t AnswerWith(slm_context* context, Write&& write) {
  json::Writer out;
  out.BeginObject();
  const records::RecordStatus status = write(out);
  if (!status) return Refuse(context, status.error().error, status.error().place);
  context->result = out.EndObject().Take();
  return 0;
}

// Whether the pointer is a handle of this kind that this context made; it is not followed before.
template <typename T>
bool Knows(const slm_context& context, const T* handle) {
  return std::any_of(context.handles.begin(), context.handles.end(), [handle](const auto& one) {
    return one->kind == T::kKind && static_cast<const T*>(one.get()) == handle;
  });
}

template <typename T>
void Drop(slm_context* context, const T* handle) {
  std::erase_if(context->handles, [handle](const auto& one) {
    return one->kind == T::kKind && static_cast<const T*>(one.get()) == handle;
  });
}

template <typename T>
T* Keep(slm_context* context, std::unique_ptr<T> object) {
  T* const handle = object.get();
  context->handles.push_back(std::move(object));
  return handle;
}

}  // namespace slm::capi

#endif  // SLM_CAPI_HANDLES_H_
