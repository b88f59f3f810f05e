#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace quire {

/// A script that completes the program's commands, flags and values in a shell: "bash", "zsh" or "fish". Throws Error
/// for any other.
std::string CompletionFor(const std::string& shell, const CLI::App& app);

/// The program's manual page (groff's man macros), from what --help says of every command.
std::string ManualPage(const CLI::App& app, const std::string& version);

}  // namespace quire
