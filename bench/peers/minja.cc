// minja, as it was in llama.cpp before its own engine.
#include "minja/minja.hpp"

#include "peer.h"

int main() {
  return peer::Serve([](const std::string& source, const peer::Json& values) -> peer::Renderer {
    auto root = minja::Parser::parse(
        source, {.trim_blocks = true, .lstrip_blocks = true, .keep_trailing_newline = false});
    auto context = std::make_shared<peer::Json>(values);
    auto made = minja::Context::make(minja::Value(*context));
    return [root, made] {
      // A template may set variables: in a scope of its own.
      return root->render(minja::Context::make(minja::Value::object(), made));
    };
  });
}
