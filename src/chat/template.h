// Chat templates (standard section 5): Jinja source in, bounded IR out; rendering runs the IR only.
//
// Reference: apply_chat_template of Transformers 5.24 over Jinja2 3.1.6. A Template is immutable
// and may be used from any number of threads.
#ifndef SLM_CHAT_TEMPLATE_H_
#define SLM_CHAT_TEMPLATE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "chat/interpreter.h"
#include "chat/program.h"
#include "codec/json.h"

namespace slm::chat {

// Bytes [begin, end) of the rendered text and who put them there: `template`,
// `messages[2].content`, `tools[0]`, or the name of a variable.
struct Span {
  uint64_t begin;
  uint64_t end;
  std::string owner;
  friend bool operator==(const Span&, const Span&) = default;
};

// Who emits what (TPL-05): "template", "tokenizer", or "none".
struct InsertionOwnership {
  std::string bos = "none";
  std::string eos = "none";
  std::string turn_separator = "none";
  std::string generation_prefix = "none";
};

struct ContextState;

struct Rendered {
  std::string text;               // UTF-8
  std::vector<Segment> segments;  // who owns which part: in order, covering the text, no two neighbours alike
  std::shared_ptr<const ContextState> owners;  // their names
  // The segments with the names of their owners.
  [[nodiscard]] std::vector<Span> Spans() const;
  // Byte ranges inside the statement `generation`: what an assistant said.
  std::vector<std::pair<uint64_t, uint64_t>> generations;
  InsertionOwnership ownership;
  // Nothing where it writes nothing, or where the template fails without it.
  std::optional<GenerationPrefix> generation_prefix;
};

struct RenderOptions {
  // Special tokens that the source declares: ("bos_token", "<s>") and so on. A variable of the
  // context with the same name replaces one. A token that is not declared is undefined.
  std::vector<std::pair<std::string, std::string>> special_tokens;
  std::string clock;  // civil time for strftime_now, "2026-11-30T12:00:00"; empty: none
  // Receives where in the template's source a rendering failed; line 0 where the context was at fault.
  SourcePlace* fault = nullptr;
};

// A context made ready for rendering: its values, and the names of their owners. Immutable; any thread, any
// number of renderings, of any template.
class Context {
 public:
  // `context` is an object: messages, and whatever else the template declares; its document outlives the
  // Context. Special tokens as in RenderOptions. Errors: TPL-INPUT.
  [[nodiscard]] static Result<Context> Make(
      const json::Value& context, const std::vector<std::pair<std::string, std::string>>& special_tokens);

 private:
  friend class Template;
  explicit Context(std::shared_ptr<const ContextState> state) : state_(std::move(state)) {}
  std::shared_ptr<const ContextState> state_;
};

class Template {
 public:
  // Errors: TPL-SYNTAX, TPL-FORBIDDEN, TPL-BOUND, UTF8, with the byte offset in the source.
  [[nodiscard]] static Result<Template> Compile(std::string_view source);
  // Errors: TPL-IR.
  [[nodiscard]] static Result<Template> Load(ByteSpan ir);
  [[nodiscard]] Bytes Serialize() const { return SerializeProgram(program()); }
  [[nodiscard]] const Program& program() const { return executable_->program(); }

  // `context` is an object: messages, and whatever else the template declares. `tools` and
  // `documents` that are absent are none; every other variable that is absent is undefined.
  // Errors: TPL-INPUT, TPL-RAISED, TPL-RUNTIME, TPL-BUDGET, UNSUPPORTED.
  [[nodiscard]] Result<Rendered> Render(const json::Value& context, const RenderOptions& options) const;
  // The same with the special tokens that the context was made with.
  [[nodiscard]] Result<Rendered> Render(const Context& context, const RenderOptions& options) const;

 private:
  explicit Template(std::shared_ptr<const Executable> executable) : executable_(std::move(executable)) {}
  std::shared_ptr<const Executable> executable_;
};

}  // namespace slm::chat

#endif  // SLM_CHAT_TEMPLATE_H_
