#pragma once

#include "coordinator/cli/options.h"

namespace quire {

/// Runs `quire check`: prints one line for each check, or all checks as JSON. Returns 0 when no check failed, else 1.
/// An invalid topology counts as a failed check.
int RunCheckCommand(const ServeFlags& flags, bool json);

}  // namespace quire
