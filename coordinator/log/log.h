#pragma once

#include <string>

#include "comm/base/log_level.h"
#include "comm/base/printable.h"

namespace quire {

/// Standard output belongs to results; everything said on the way goes to standard error, one line each: what comes
/// from outside cannot begin a line of its own or speak to the terminal, because control characters are spelled out.
void SetUpLog(LogLevel level);

/// From now on; of all threads.
void SetLogLevel(LogLevel level);
LogLevel CurrentLogLevel();

/// While it lives, what this thread says begins with "NAME: ". Threads that belong to the same thing take the name
/// along: `const LogName named(name)`, with what Current() was where they were started. An empty name is none.
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
