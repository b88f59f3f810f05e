#pragma once

#include <functional>

#include "coordinator/cli/options.h"

namespace quire {

/// Runs `quire check`: prints one line for each check, or all checks as JSON. Returns 0 when no check failed, else 1.
/// An invalid topology counts as a failed check. `check_keys` reads the key files and throws Error for an invalid one.
int RunCheckCommand(const ServeFlags& flags, bool json, const std::function<void(const Topology&)>& check_keys);

}  // namespace quire
