#pragma once

#include <vector>

#include "coordinator/cli/command.h"

namespace quire {

/// `quire bench` and its subcommands.
std::vector<Command> AddBench(CLI::App& app);

}  // namespace quire
