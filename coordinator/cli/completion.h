#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace quire {

/// Returns a shell script that completes the program's commands, flags and values, for "bash", "zsh" or "fish". Throws
/// Error for other shells.
std::string CompletionFor(const std::string& shell, const CLI::App& app);

/// Returns the program's manual page (groff man macros), made from the --help texts of all commands.
std::string ManualPage(const CLI::App& app, const std::string& version);

}  // namespace quire
