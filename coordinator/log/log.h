#pragma once

#include <cstdint>
#include <string>

#include "comm/base/log_format.h"
#include "comm/base/log_level.h"
#include "comm/base/printable.h"

namespace quire {

/// Makes this process log to standard error, one line for each message: date and time with the time zone, level, text.
/// Standard output is left to results. Control characters are escaped, so that text from outside can neither begin a
/// line of its own nor control the terminal.
void SetUpLog(LogLevel level);

/// Changes the level for all threads from now on.
void SetLogLevel(LogLevel level);
LogLevel CurrentLogLevel();

/// Changes the format of later lines, for all threads. With kJson each line is one object: time (UTC), level, message,
/// and the fields of LogName and LogField.
void SetLogFormat(LogFormat format);

/// Returns a line of another program, without its line end, as a line of this log. In the text format, LogName's text
/// precedes the line, and control characters are escaped. With kJson the line becomes a JSON object; a line that is a
/// JSON object already stays unchanged.
std::string LineOfProgram(const std::string& line);

/// While this object lives, messages of this thread begin with "NAME: ", or have the field `part`. To pass the name on
/// to a new thread, create `const LogName named(name)` on the new thread; `name` is Current() of the thread that starts
/// it. An empty name adds nothing.
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

/// While this object lives, JSON lines of this thread have this field. Lines in the text format do not show it.
class LogField {
 public:
  LogField(const char* name, std::string value);
  LogField(const char* name, int64_t value);
  ~LogField();
  LogField(const LogField&) = delete;
  LogField& operator=(const LogField&) = delete;
};

}  // namespace quire
