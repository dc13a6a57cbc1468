// llama.cpp's engine (common/jinja).
#include "common/jinja/lexer.h"
#include "common/jinja/parser.h"
#include "common/jinja/runtime.h"
#include "peer.h"

int main() {
  return peer::Serve([](const std::string& source, const peer::Json& values) -> peer::Renderer {
    jinja::lexer lexer;
    auto program = std::make_shared<jinja::program>(jinja::parse_from_tokens(lexer.tokenize(source)));
    auto base = std::make_shared<jinja::context>(source);
    jinja::global_from_json(*base, values, /*mark_input=*/true);  // its way to know what is content
    return [program, base] {
      jinja::context context(*base);  // a template may set variables
      jinja::runtime runtime(context);
      return jinja::runtime::gather_string_parts(runtime.execute(*program))->as_string().str();
    };
  });
}
