#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace quire {

/// Parses the command line into `app`. Returns the exit status when the program has to end: 0 after --help and
/// --version, 2 after a line on standard error about the error. notes: gets sentences for the log about ignored flags
/// of other engines.
std::optional<int> ParseCommandLine(CLI::App& app, int argc, const char* const* argv, std::vector<std::string>& notes);

}  // namespace quire
