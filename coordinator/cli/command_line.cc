#include "coordinator/cli/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace quire {

namespace {

/// Flags with one dash and several letters, and the long flags that replace them. The parser would take such a flag for
/// a group of one-letter flags.
constexpr std::pair<const char*, const char*> kShortNames[] = {{"-tp", "--tensor-parallel-size"},
                                                               {"-pp", "--pipeline-parallel-size"}};

/// Returns the optimal string alignment distance of two words (Damerau, 1964), which edits no part of a word twice.
size_t Distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

bool IsFlag(const std::string& argument) { return argument.size() > 1 && argument[0] == '-'; }

/// Returns the command's full name as typed, such as "quire bench latency".
std::string FullName(const CLI::App& app) {
  const auto* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : FullName(*parent) + " " + app.get_name();
}

const CLI::App* FindCommand(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

std::string UnknownCommand(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names = {"help"};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  const std::string nearest = NearestWord(word, names);
  const std::string question = nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest);
  return fmt::format("{0} has no command \"{1}\"{2} ({0} --help lists the commands)", FullName(app), word, question);
}

std::string UnknownFlag(const CLI::App& app, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& known : option->get_lnames()) names.push_back("--" + known);
  }
  if (std::ranges::find(names, name) != names.end()) return "";
  const std::string nearest = NearestWord(name, names);
  const std::string question = nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
  return fmt::format("{0} has no flag {1}{2} ({0} --help lists the flags)", FullName(app), name, question);
}

}  // namespace

std::vector<std::string> Arguments(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) {
    std::string argument = argv[i];
    for (const auto& [brief, name] : kShortNames) {
      if (!argument.starts_with(brief)) continue;
      const std::string value = argument.substr(argument.starts_with(std::string(brief) + "=") ? 4 : 3);
      if (!value.empty()) arguments.push_back(value);
      argument = name;
    }
    arguments.push_back(std::move(argument));
  }
  if (!arguments.empty() && arguments.back() == "help") {
    arguments.pop_back();
    arguments.insert(arguments.begin(), "--help");
  }
  return arguments;
}

std::string NearestWord(const std::string& word, const std::vector<std::string>& candidates) {
  std::string nearest;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = Distance(word, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string Suggestion(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  for (auto argument = arguments.rbegin(); argument != arguments.rend(); ++argument) {
    if (IsFlag(*argument)) {
      const std::string unknown = argument->starts_with("--") ? UnknownFlag(*command, *argument) : "";
      if (!unknown.empty()) return unknown;
      continue;
    }
    if (command->get_subcommands([](const CLI::App*) { return true; }).empty()) continue;
    const CLI::App* next = FindCommand(*command, *argument);
    if (next == nullptr) return UnknownCommand(*command, *argument);
    command = next;
  }
  return "";
}

}  // namespace quire
