#include "apps/slm/args.h"

#include <CLI/CLI.hpp>
#include <deque>

namespace slm::app {

struct Command::Impl {
  CLI::App* app = nullptr;
  std::unique_ptr<CLI::App> owned;  // of the root only
  std::deque<std::unique_ptr<Impl>> children;
  Command face{this};
};

namespace {

template <typename T>
void AddOption(CLI::App* app, const std::string& name, T* value, const std::string& help, bool required) {
  CLI::Option* option = app->add_option(name, *value, help);
  if (required) option->required();
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
  AddOption(impl_->app, name, value, help, required);
  return *this;
}
Command& Command::Option(const std::string& name, uint64_t* value, const std::string& help, bool required) {
  AddOption(impl_->app, name, value, help, required);
  return *this;
}
Command& Command::Option(const std::string& name, double* value, const std::string& help, bool required) {
  AddOption(impl_->app, name, value, help, required);
  return *this;
}
Command& Command::Option(const std::string& name, std::vector<std::string>* values, const std::string& help,
                         bool required) {
  CLI::Option* option = impl_->app->add_option(name, *values, help);
  if (name.starts_with('-')) option->expected(1)->take_all()->allow_extra_args(false);
  if (required) option->required();
  return *this;
}
Command& Command::Flag(const std::string& name, bool* value, const std::string& help) {
  impl_->app->add_flag(name, *value, help);
  return *this;
}
bool Command::Given(const std::string& name) const {
  return impl_->app->count(name) > 0;
}

Command& Command::Example(const std::string& text) {
  impl_->app->footer(text);
  return *this;
}
Command& Command::Run(std::function<void()> run) {
  impl_->app->callback(std::move(run));
  return *this;
}

CommandLine::CommandLine(const std::string& name, const std::string& help, const std::string& version)
    : impl_(std::make_unique<Command::Impl>()) {
  impl_->owned = std::make_unique<CLI::App>(help, name);
  impl_->app = impl_->owned.get();
  impl_->app->require_subcommand(0, 1);
  impl_->app->set_version_flag("--version", version);
}
CommandLine::~CommandLine() = default;

Command& CommandLine::root() {
  return impl_->face;
}

CommandLine::Outcome CommandLine::Parse(int argc, char** argv, std::string* usage_error) {
  try {
    impl_->app->parse(argc, argv);
  } catch (const CLI::Success& success) {
    impl_->app->exit(success);
    return Outcome::kHelpShown;
  } catch (const CLI::ParseError& error) {
    *usage_error = error.what();
    return Outcome::kUsageError;
  }
  if (impl_->app->get_subcommands().empty()) {
    std::fputs(impl_->app->help().c_str(), stdout);
    return Outcome::kHelpShown;
  }
  return Outcome::kRan;
}

}  // namespace slm::app
