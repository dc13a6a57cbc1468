// A peer's engine as bench/template.py drives it: lines of JSON in, {"render_us", "output"} or {"error"} out.
// Not part of the build: bench/template.py compiles it beside the peer's own sources.
#ifndef SLM_BENCH_PEERS_PEER_H_
#define SLM_BENCH_PEERS_PEER_H_

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <functional>
#include <iostream>
#include <string>

#include "nlohmann/json.hpp"

namespace peer {

using Json = nlohmann::ordered_json;
// Renders once; the template is parsed and the context made before.
using Renderer = std::function<std::string()>;

inline double CpuMicroseconds() {
  timespec now{};
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

inline int Serve(const std::function<Renderer(const std::string& source, const Json& context)>& prepare) {
  for (std::string line; std::getline(std::cin, line);) {
    Json answer;
    try {
      const Json request = Json::parse(line);
      Json context = Json::parse(request["context"].get<std::string>());
      for (const auto& [name, token] : request["special_tokens"].items()) context[name] = token;
      const Renderer render = prepare(request["source"].get<std::string>(), context);
      const std::string output = render();
      const int n = request["renders"].get<int>();
      const double start = CpuMicroseconds();
      for (int i = 0; i < n; ++i) {
        if (render().size() != output.size()) std::abort();
      }
      answer = {{"render_us", (CpuMicroseconds() - start) / n}, {"output", output}};
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  }
  return 0;
}

}  // namespace peer

#endif  // SLM_BENCH_PEERS_PEER_H_
