#include "chat/analysis.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "codec/json.h"

namespace slm::chat {
namespace {

// No published template holds these.
constexpr std::string_view kBos = "\u2997bos\u2998";
constexpr std::string_view kEos = "\u2997eos\u2998";

std::string Sentinel(size_t i) {
  return "qz" + std::to_string(i) + "zq";
}

struct Trial {
  Outcome outcome = Outcome::kFailed;
  std::string text;
  std::string message;
};

class Analyst {
 public:
  explicit Analyst(const Template& source) : source_(source) {}

  Analysis Run() {
    Roles();
    System();
    Turns();
    Generation();
    Tokens();
    Blocks();
    Prefix();
    return std::move(report_);
  }

 private:
  static std::string Message(std::string_view role, const std::string& content) {
    json::Writer out;
    out.BeginObject().Key("role").String(role).Key("content").String(content).EndObject();
    return out.Take();
  }
  // Turns of these roles with sentinels for content.
  static std::string Turns(const std::vector<std::string_view>& roles) {
    std::string messages;
    for (size_t i = 0; i < roles.size(); ++i) messages += (i > 0 ? "," : "") + Message(roles[i], Sentinel(i));
    return messages;
  }

  Trial Try(const std::string& messages, size_t n_sentinels, bool generates = false,
            const std::string& more = "") const {
    Trial trial;
    const auto document = json::Parse("{\"messages\":[" + messages + "],\"add_generation_prompt\":" +
                                      (generates ? "true" : "false") + more + "}");
    if (!document) return trial;
    RenderOptions options;
    options.special_tokens = {{"bos_token", std::string(kBos)}, {"eos_token", std::string(kEos)}};
    options.clock = "2026-11-30T12:00:00";
    const auto rendered = source_.Render(document->root(), options);
    if (!rendered) {
      trial.outcome = rendered.error().code == ErrorCode::kTplRaised ? Outcome::kRaised : Outcome::kFailed;
      trial.message = rendered.error().message;
      return trial;
    }
    trial.text = rendered->text;
    trial.outcome = Outcome::kRendered;
    for (size_t i = 0; i < n_sentinels; ++i) {
      if (trial.text.find(Sentinel(i)) == std::string::npos) trial.outcome = Outcome::kDropped;
    }
    return trial;
  }
  Trial Try(const std::vector<std::string_view>& roles) const { return Try(Turns(roles), roles.size()); }

  void Roles() {
    static constexpr std::array<std::string_view, 10> kRoles = {"user",  "assistant", "system",  "developer",
                                                                "tool",  "function",  "ipython", "context",
                                                                "model", "critic"};
    std::vector<std::string> texts;
    for (const std::string_view role : kRoles) {
      // A user's second turn is asked for after an answer, every other role after the user's first.
      const Trial trial = role == "user" ? Try({"user", "assistant", "user"}) : Try({"user", role});
      RoleReport report{std::string(role), trial.outcome, "", trial.message};
      for (size_t i = 1; i < texts.size() && trial.outcome == Outcome::kRendered; ++i) {
        if (texts[i] == trial.text && report.alias_of.empty()) report.alias_of = report_.roles[i].role;
      }
      texts.push_back(trial.outcome == Outcome::kRendered ? trial.text : "");
      report_.roles.push_back(std::move(report));
    }
    const Trial unknown = Try(Turns({"user", "qroleq"}), 2);
    report_.unknown_role = unknown.outcome == Outcome::kRaised                   ? "raised"
                           : unknown.outcome == Outcome::kFailed                 ? "failed"
                           : unknown.text.find("qroleq") != std::string::npos    ? "copied"
                           : unknown.text.find(Sentinel(1)) != std::string::npos ? "mapped"
                                                                                 : "dropped";
  }

  void System() {
    const Trial with = Try({"system", "user"});
    const Trial without = Try({"user"});
    report_.system = with.outcome == Outcome::kDropped    ? "dropped"
                     : with.outcome != Outcome::kRendered ? "forbidden"
                     : without.outcome == Outcome::kRaised || without.outcome == Outcome::kFailed
                         ? "required"
                         : "optional";
    std::string lower = without.text;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    report_.synthesizes_system = lower.find("system") != std::string::npos;
    report_.two_systems = Try({"system", "system", "user"}).outcome;
  }

  void Turns() {
    report_.two_users = Try({"user", "user"}).outcome;
    report_.two_assistants = Try({"user", "assistant", "assistant"}).outcome;
    report_.assistant_first = Try({"assistant", "user"}).outcome;
    report_.empty_content = Try(Message("user", ""), 0).outcome;
    report_.null_content =
        Try(Message("user", Sentinel(0)) + R"(,{"role":"assistant","content":null})", 1).outcome;
    report_.no_messages = Try("", 0).outcome;
    const std::string padded = " \n" + Sentinel(0) + " \n";
    const Trial trim = Try(Message("user", padded), 1);
    report_.trims_content = trim.outcome == Outcome::kRendered && trim.text.find(padded) == std::string::npos;
  }

  void Generation() {
    const std::string messages = Turns(std::vector<std::string_view>{"user"});
    const Trial off = Try(messages, 1, false);
    const Trial on = Try(messages, 1, true);
    if (on.text.starts_with(off.text)) {
      report_.generation_prefix = on.text.substr(off.text.size());
    } else {
      report_.generation_prefix_appends = false;
    }
  }

  static uint64_t Count(const std::string& text, std::string_view wanted) {
    uint64_t n = 0;
    for (size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + wanted.size()))
      ++n;
    return n;
  }

  void Tokens() {
    const Trial trial = Try({"user", "assistant", "user", "assistant"});
    report_.bos_count = Count(trial.text, kBos);
    if (report_.bos_count > 0) report_.bos_offset = trial.text.find(kBos);
    report_.eos_count = Count(trial.text, kEos);
    report_.ends_with_eos = trial.text.ends_with(kEos);
  }

  void Blocks() {
    const std::string user = Message("user", Sentinel(0));
    const auto shows = [&](const std::string& more, const char* wanted) {
      return Try(user, 1, true, more).text.find(wanted) != std::string::npos;
    };
    report_.uses_tools = shows(
        R"(,"tools":[{"type":"function","function":{"name":"qtoolq","description":"d","parameters":{"type":"object","properties":{}}}}])",
        "qtoolq");
    report_.uses_documents = shows(R"(,"documents":[{"title":"qdocq","text":"qdocq"}])", "qdocq");
    const std::string thinking = user + "," +
                                 Message("assistant", "<think>\nqthinkq\n</think>\n\n" + Sentinel(1)) + "," +
                                 Message("user", Sentinel(2));
    report_.keeps_thinking = Try(thinking, 3, true).text.find("qthinkq") != std::string::npos;
    const auto reads = [this](std::string_view name) {
      const Program& program = source_.program();
      return std::any_of(program.nodes.begin(), program.nodes.end(), [&](const ProgramNode& node) {
        return node.op == Op::kResolve && program.strings[node.operands[1]] == name;
      });
    };
    report_.uses_clock = reads("strftime_now");
    for (const char* name :
         {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"}) {
      if (!reads(name)) report_.dead_inputs.emplace_back(name);
    }
  }

  void Prefix() {
    const std::string answer = Message("assistant", "<think>\nqthinkq\n</think>\n\n" + Sentinel(1));
    const std::string shorter = Message("user", Sentinel(0)) + "," + answer;
    const Trial first = Try(shorter, 2);
    const Trial second = Try(shorter + "," + Message("user", Sentinel(2)), 3);
    if (first.text.empty() || second.text.empty()) return;
    const auto [a, b] =
        std::mismatch(first.text.begin(), first.text.end(), second.text.begin(), second.text.end());
    report_.extends_prefix = a == first.text.end();
    report_.first_changed_byte = report_.extends_prefix ? 0 : static_cast<uint64_t>(a - first.text.begin());
  }

  const Template& source_;
  Analysis report_;
};

}  // namespace

const char* OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kRendered:
      return "rendered";
    case Outcome::kDropped:
      return "dropped";
    case Outcome::kRaised:
      return "raised";
    case Outcome::kFailed:
      return "failed";
  }
  return "failed";
}

Analysis Analyze(const Template& source) {
  return Analyst(source).Run();
}

std::string AnalysisJson(const Analysis& analysis) {
  json::Writer out;
  out.BeginObject().Key("roles").BeginArray();
  for (const RoleReport& role : analysis.roles) {
    out.BeginObject().Key("role").String(role.role).Key("outcome").String(OutcomeName(role.outcome));
    if (!role.alias_of.empty()) out.Key("alias_of").String(role.alias_of);
    if (!role.message.empty()) out.Key("message").String(role.message);
    out.EndObject();
  }
  out.EndArray().Key("unknown_role").String(analysis.unknown_role).Key("system").String(analysis.system);
  out.Key("synthesizes_system").Bool(analysis.synthesizes_system);
  out.Key("two_systems").String(OutcomeName(analysis.two_systems));
  out.Key("two_users").String(OutcomeName(analysis.two_users));
  out.Key("two_assistants").String(OutcomeName(analysis.two_assistants));
  out.Key("assistant_first").String(OutcomeName(analysis.assistant_first));
  out.Key("empty_content").String(OutcomeName(analysis.empty_content));
  out.Key("null_content").String(OutcomeName(analysis.null_content));
  out.Key("no_messages").String(OutcomeName(analysis.no_messages));
  out.Key("trims_content").Bool(analysis.trims_content);
  out.Key("generation_prefix").String(analysis.generation_prefix);
  out.Key("generation_prefix_appends").Bool(analysis.generation_prefix_appends);
  out.Key("bos")
      .BeginObject()
      .Key("count")
      .Uint(analysis.bos_count)
      .Key("offset")
      .Uint(analysis.bos_offset)
      .EndObject();
  out.Key("eos")
      .BeginObject()
      .Key("count")
      .Uint(analysis.eos_count)
      .Key("last")
      .Bool(analysis.ends_with_eos)
      .EndObject();
  out.Key("uses_tools").Bool(analysis.uses_tools).Key("uses_documents").Bool(analysis.uses_documents);
  out.Key("keeps_thinking").Bool(analysis.keeps_thinking).Key("uses_clock").Bool(analysis.uses_clock);
  out.Key("extends_prefix").Bool(analysis.extends_prefix);
  out.Key("first_changed_byte").Uint(analysis.first_changed_byte);
  out.Key("dead_inputs").BeginArray();
  for (const std::string& name : analysis.dead_inputs) out.String(name);
  out.EndArray().EndObject();
  return out.Take();
}

std::string AnalysisText(const Analysis& analysis) {
  std::string text;
  const auto line = [&text](const std::string& name, const std::string& value) {
    text += name + std::string(name.size() < 28 ? 28 - name.size() : 1, ' ') + value + "\n";
  };
  for (const RoleReport& role : analysis.roles) {
    std::string value = OutcomeName(role.outcome);
    if (!role.alias_of.empty()) value += ", as " + role.alias_of;
    if (!role.message.empty()) value += ": " + EscapeForDisplay(role.message);
    line("role " + role.role, value);
  }
  line("unknown roles", analysis.unknown_role);
  line("system message",
       analysis.system + (analysis.synthesizes_system ? ", written by the template if absent" : ""));
  line("two system messages", OutcomeName(analysis.two_systems));
  line("two users in a row", OutcomeName(analysis.two_users));
  line("two assistants in a row", OutcomeName(analysis.two_assistants));
  line("assistant first", OutcomeName(analysis.assistant_first));
  line("empty content", OutcomeName(analysis.empty_content));
  line("null content", OutcomeName(analysis.null_content));
  line("no messages", OutcomeName(analysis.no_messages));
  line("white space around content", analysis.trims_content ? "trimmed" : "kept");
  line("generation prefix", analysis.generation_prefix_appends
                                ? "|" + EscapeForDisplay(analysis.generation_prefix) + "|"
                                : "changes what stands before it");
  line("BOS in four turns",
       std::to_string(analysis.bos_count) +
           (analysis.bos_count > 0 ? ", first at byte " + std::to_string(analysis.bos_offset) : ""));
  line("EOS in four turns",
       std::to_string(analysis.eos_count) + (analysis.ends_with_eos ? ", last of all" : ""));
  line("tools", analysis.uses_tools ? "shown" : "not shown");
  line("documents", analysis.uses_documents ? "shown" : "not shown");
  line("earlier thinking", analysis.keeps_thinking ? "kept" : "removed");
  line("clock", analysis.uses_clock ? "read" : "not read");
  line("a longer conversation", analysis.extends_prefix ? "extends the shorter rendering"
                                                        : "changes the shorter rendering from byte " +
                                                              std::to_string(analysis.first_changed_byte));
  std::string dead;
  for (const std::string& name : analysis.dead_inputs) dead += (dead.empty() ? "" : " ") + name;
  line("inputs never read", dead.empty() ? "none" : dead);
  return text;
}

}  // namespace slm::chat
