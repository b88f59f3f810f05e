#pragma once

#include <string_view>

#include "comm/base/log_format.h"
#include "comm/base/log_level.h"
#include "comm/base/types.h"

namespace quire {

/// Sets the form of this process's later log lines. The form is text until the first call.
void SetWorkerLog(LogFormat format);

/// Writes a line to standard error: "quire-worker: rank 0 on HOST: TEXT" with control characters escaped, or a JSON
/// object with time, level, message, `program`, `rank` and `host`. Rank -1 and an empty host are left out.
void WorkerLog(LogLevel level, Rank rank, std::string_view text, std::string_view host = "");

}  // namespace quire
