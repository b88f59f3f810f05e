#pragma once

#include "coordinator/cli/command.h"

namespace quire {

/// Adds `quire plan` to the command line.
Subcommand AddPlan(CLI::App& app);

}  // namespace quire
