#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace quire {

/// Adds examples to the --help texts of the commands.
void AddExamples(CLI::App& app);

/// Returns the sections of the manual page that follow the commands, in groff's man macros: examples, exit status,
/// environment, files.
std::string ManualSections();

}  // namespace quire
