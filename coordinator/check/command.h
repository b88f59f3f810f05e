#pragma once

#include "coordinator/cli/options.h"

namespace quire {

/// `quire check`: prints a line per check, or all of them as JSON; 0 when nothing failed, else 1. A topology that is
/// not valid is a failed check.
int RunCheckCommand(const ServeFlags& flags, bool json);

}  // namespace quire
