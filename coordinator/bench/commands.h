#pragma once

#include <vector>

#include "coordinator/cli/command.h"

namespace quire {

/// Adds `quire bench` and its subcommands to `app`. Returns the subcommands.
std::vector<Subcommand> AddBench(CLI::App& app);

}  // namespace quire
