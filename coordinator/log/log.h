#pragma once

#include <string>
#include <string_view>

#include "comm/base/log_level.h"

namespace quire {

/// Standard output belongs to results; everything said on the way goes to standard error, one line each: what comes
/// from outside cannot begin a line of its own or speak to the terminal, because control characters are spelled out.
void SetUpLog(LogLevel level);

/// From now on; of all threads.
void SetLogLevel(LogLevel level);
LogLevel CurrentLogLevel();

/// Control characters as \n, \t, \r or \x1b, and everything else as it is.
std::string WithoutControls(std::string_view text);

}  // namespace quire
