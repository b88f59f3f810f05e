#pragma once

#include <cstdint>
#include <string>

#include "comm/base/log_format.h"
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

/// Changes the form of later lines, for all threads. With kJson each line is one object: time (UTC), level, message,
/// and what LogName and LogField say.
void SetLogFormat(LogFormat format);

/// Returns another program's line (without line end) as a line of this log. As text: after LogName's text and with
/// control characters escaped. With kJson: as an object; a line that is a JSON object already stays unchanged.
std::string LineOfProgram(const std::string& line);

/// While this object lives, messages of this thread begin with "NAME: ", or have the field `part`. A thread that is
/// started for the same purpose takes over the name with `const LogName named(name)`, where `name` is Current() of the
/// starting thread. An empty name adds nothing.
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

/// While this object lives, lines of this thread that are JSON have this field. Text does not show it.
class LogField {
 public:
  LogField(const char* name, std::string value);
  LogField(const char* name, int64_t value);
  ~LogField();
  LogField(const LogField&) = delete;
  LogField& operator=(const LogField&) = delete;
};

}  // namespace quire
