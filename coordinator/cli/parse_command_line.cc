#include "coordinator/cli/parse_command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "comm/base/error.h"
#include "comm/base/printable.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/foreign_words.h"

namespace quire {

namespace {

/// Returns the command that was typed, with its full name.
std::pair<const CLI::App*, std::string> TypedCommand(const CLI::App& app) {
  const CLI::App* command = &app;
  std::string name = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  return {command, name};
}

std::string WhatIsWrong(const CLI::App& app, const CLI::ParseError& error) {
  const auto [command, name] = TypedCommand(app);
  const std::vector<std::string> left = app.remaining(true);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !left.empty())
    return fmt::format("{0} takes no further \"{1}\" ({0} --help shows what it takes)", name, fmt::join(left, " "));
  return fmt::format("{0}: {1} ({0} --help shows what it takes)", name, error.what());
}

}  // namespace

std::optional<int> ParseCommandLine(CLI::App& app, int argc, const char* const* argv, std::vector<std::string>& notes) {
  std::vector<std::string> words = Arguments(argc, argv);
  std::ranges::reverse(words);
  try {
    OwnWords own = InOwnWords(app, words);
    words = std::move(own.words);
    notes = std::move(own.notes);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", LinesWithoutControls(error.what()));
    return kSettingsStatus;
  }
  std::ranges::reverse(words);
  try {
    app.parse(std::vector<std::string>(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    const std::string suggestion = Suggestion(app, words);
    const std::string line = suggestion.empty() ? WhatIsWrong(app, error) : suggestion;
    fmt::print(stderr, "{}\n", LinesWithoutControls(line));
    return kSettingsStatus;
  }
  return std::nullopt;
}

}  // namespace quire
