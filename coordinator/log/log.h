#pragma once

#include <string>

#include "comm/base/log_level.h"
#include "comm/base/printable.h"

namespace quire {

/// Logs to standard error, one line for each message: date and time with their zone, level, text. Standard output is
/// for results. Control characters are escaped, so that text from outside can neither begin a line of its own nor
/// control the terminal.
void SetUpLog(LogLevel level);

/// Changes the level for all threads from now on.
void SetLogLevel(LogLevel level);
LogLevel CurrentLogLevel();

/// While this object lives, messages of this thread begin with "NAME: ". A thread that is started for the same purpose
/// takes over the name with `const LogName named(name)`, where `name` is Current() of the starting thread. An empty
/// name adds nothing.
class LogName {
 public:
  explicit LogName(std::string name);
  ~LogName();
  LogName(const LogName&) = delete;
  LogName& operator=(const LogName&) = delete;

  static const std::string& Current();

 private:
  std::string before_;
};

}  // namespace quire
