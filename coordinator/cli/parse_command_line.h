#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace quire {

/// Parses the command line into `app`. Returns the exit status if the program must end: 0 after --help and --version, 2
/// after printing an error to standard error. Appends sentences for the log about ignored flags of other engines to
/// `notes`.
std::optional<int> ParseCommandLine(CLI::App& app, int argc, const char* const* argv, std::vector<std::string>& notes);

}  // namespace quire
