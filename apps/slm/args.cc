#include "apps/slm/args.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <utility>

#include "base/utf8.h"

namespace slm::app {

struct Command::Impl {
  CLI::App* app = nullptr;
  std::unique_ptr<CLI::App> owned;  // of the root only
  std::deque<std::unique_ptr<Impl>> children;
  std::vector<std::pair<std::string, std::string>> conflicts;
  Command face{this};
};

namespace {

constexpr size_t kHelpWidth = 100;

CLI::ValidationError BadNumber(const std::string& name, const std::string& text, const std::string& wanted) {
  return CLI::ValidationError(name.substr(name.rfind(',') + 1), "'" + text + "' is not " + wanted);
}

uint64_t ParseWhole(const std::string& name, const std::string& text, WholeRange range) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, value);
  if (fault != std::errc() || rest != end || value < range.min || value > range.max) {
    const std::string top = range.max == UINT64_MAX ? "2^64-1" : std::to_string(range.max);
    throw BadNumber(name, text, "a whole number from " + std::to_string(range.min) + " to " + top);
  }
  return value;
}

double ParseReal(const std::string& name, const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data(), end, value);
  if (fault != std::errc() || rest != end || !std::isfinite(value)) {
    throw BadNumber(name, text, "a finite number");
  }
  return value;
}

// "  title   text", the text folded at blanks so that lines stay readable.
std::string Folded(const std::string& title, const std::string& text, size_t indent) {
  std::string out = "  " + title;
  out.append(indent > out.size() ? indent - out.size() : 1, ' ');
  size_t column = out.size();
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (column + 1 + (end - at) > kHelpWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (at > 0) {
      out += " ";
      ++column;
    }
    out.append(text, at, end - at);
    column += end - at;
    at = end + 1;
  }
  return out + "\n";
}

// Insertions, deletions, changes and swaps of neighbours between two names.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

// "; did you mean 'x'?", or ";" where no name is near.
std::string Suggestion(const std::string& given, const std::vector<std::string>& names) {
  constexpr size_t kLongestName = 32;
  std::string best = ";";
  size_t least = std::max<size_t>(2, given.size() / 3) + 1;
  if (given.empty() || given.size() > kLongestName) return best;
  for (const std::string& name : names) {
    const size_t distance = name.starts_with(given) ? 1 : EditDistance(given, name);
    if (distance >= least) continue;
    least = distance;
    best = "; did you mean '" + name + "'?";
  }
  return best;
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

}  // namespace

Command& Command::Add(const std::string& name, const std::string& help) {
  auto child = std::make_unique<Impl>();
  child->app = impl_->app->add_subcommand(name, help);
  child->app->fallthrough();
  impl_->children.push_back(std::move(child));
  return impl_->children.back()->face;
}

Command& Command::Option(const std::string& name, std::string* value, const std::string& help,
                         bool required) {
  impl_->app->add_option(name, *value, help)->required(required);
  return *this;
}
Command& Command::Option(const std::string& name, uint64_t* value, const std::string& help,
                         WholeRange range) {
  const auto take = [name, value, range](const std::string& text) { *value = ParseWhole(name, text, range); };
  impl_->app->add_option_function<std::string>(name, take, help)->type_name("N");
  return *this;
}
Command& Command::Option(const std::string& name, double* value, const std::string& help) {
  const auto take = [name, value](const std::string& text) { *value = ParseReal(name, text); };
  impl_->app->add_option_function<std::string>(name, take, help)->type_name("NUMBER");
  return *this;
}
Command& Command::Option(const std::string& name, std::vector<std::string>* values, const std::string& help,
                         bool required) {
  CLI::Option* option = impl_->app->add_option(name, *values, help)->required(required);
  if (name.starts_with('-')) option->expected(1)->take_all()->allow_extra_args(false);
  return *this;
}
Command& Command::Flag(const std::string& name, bool* value, const std::string& help) {
  impl_->app->add_flag(name, *value, help);
  return *this;
}

Command& Command::Excludes(const std::string& name, const std::vector<std::string>& others) {
  for (const std::string& other : others) impl_->conflicts.emplace_back(name, other);
  return *this;
}

Command& Command::Help(const HelpText& text) {
  constexpr size_t kIndent = 11;
  std::string footer = text.examples.size() > 1 ? "Examples:\n" : "Example:\n";
  for (const std::string& example : text.examples) footer += "  " + example + "\n";
  footer += "\nBounds:\n" + Folded("input", text.input, kIndent) + Folded("memory", text.memory, kIndent) +
            Folded("time", text.time, kIndent);
  if (!text.notes.empty()) footer += "\nNotes:\n" + Folded("", text.notes, 2);
  footer.pop_back();
  impl_->app->footer(footer);
  return *this;
}

Command& Command::Run(std::function<void()> run) {
  impl_->app->callback([impl = impl_, run = std::move(run)] {
    for (const auto& [first, second] : impl->conflicts) {
      if (impl->app->count(first) == 0 || impl->app->count(second) == 0) continue;
      throw CLI::ValidationError(first + " and " + second + " exclude each other; give one of them");
    }
    run();
  });
  return *this;
}

CommandLine::CommandLine(const std::string& name, const std::string& help, const std::string& footer,
                         const std::string& version)
    : impl_(std::make_unique<Command::Impl>()) {
  impl_->owned = std::make_unique<CLI::App>(help, name);
  impl_->app = impl_->owned.get();
  impl_->app->require_subcommand(0, 1);
  impl_->app->set_version_flag("--version", version);
  impl_->app->footer(footer);
  CLI::App* help_command = impl_->app->add_subcommand("help", "Help on a command");
  help_command->fallthrough();
  help_command->add_option("command", help_topics_, "The command; none: this list");
}
CommandLine::~CommandLine() = default;

Command& CommandLine::root() {
  return impl_->face;
}

// What is wrong with the first argument that nothing takes.
std::string CommandLine::Unexpected() const {
  const std::vector<std::string> rest = impl_->app->remaining(/*recurse=*/true);
  const std::string first = rest.empty() ? "" : rest.front();
  const auto chosen = impl_->app->get_subcommands();
  if (chosen.empty() && !first.starts_with('-')) {
    return "there is no command '" + EscapeForDisplay(first) + "'" +
           Suggestion(first, CommandNames(*impl_->app)) + " `slm help` lists them";
  }
  const CLI::App& command = chosen.empty() ? *impl_->app : *chosen.front();
  const std::string called = chosen.empty() ? "slm" : "slm " + command.get_name();
  const std::string kind = first.starts_with('-') ? "there is no option '" : "there is no place for '";
  return kind + EscapeForDisplay(first) + "'" +
         (first.starts_with('-') ? Suggestion(first.substr(0, first.find('=')), OptionNames(command)) : ";") +
         " `" + called + " --help` shows what it takes";
}

CommandLine::Outcome CommandLine::Parse(int argc, char** argv, std::string* text) {
  CLI::App& app = *impl_->app;
  const std::string overview = app.help();  // before a subcommand is chosen: then help() is that one's
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    if (app.get_subcommands().empty() && !app.remaining(/*recurse=*/true).empty()) {
      *text = Unexpected();
      return Outcome::kUsageError;
    }
    *text = app.help();
    return Outcome::kHelp;
  } catch (const CLI::CallForVersion& version) {
    *text = std::string(version.what()) + "\n";
    return Outcome::kVersion;
  } catch (const CLI::ExtrasError&) {
    *text = Unexpected();
    return Outcome::kUsageError;
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    *text = std::string(error.what()) + "; `slm " + (chosen.empty() ? "" : chosen.front()->get_name() + " ") +
            "--help` shows what it takes";
    return Outcome::kUsageError;
  }
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) {
    *text = overview;
    return Outcome::kNoCommand;
  }
  if (chosen.front()->get_name() != "help") return Outcome::kRan;
  const CLI::App* topic = &app;
  for (const std::string& name : help_topics_) {
    const auto commands =
        topic->get_subcommands([&name](const CLI::App* c) { return c->get_name() == name; });
    if (commands.empty()) {
      *text = "there is no command '" + EscapeForDisplay(name) + "'" + Suggestion(name, CommandNames(app)) +
              " `slm help` lists them";
      return Outcome::kUsageError;
    }
    topic = commands.front();
  }
  *text = topic == &app ? overview : topic->help(app.get_name());
  return Outcome::kHelp;
}

}  // namespace slm::app
