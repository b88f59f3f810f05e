#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/base/json.h"
#include "comm/base/log_level.h"

namespace quire {

/// The fields of a log line besides time, level and message: names and values.
using LogFields = std::vector<std::pair<std::string, Json>>;

/// Formats a time in UTC, to the millisecond, as RFC 3339 has it: 2026-11-22T16:00:00.123Z.
std::string Timestamp(std::chrono::system_clock::time_point time);

/// Returns a JSON object without a line end: `time`, `level`, `message`, then the fields. The line is plain ASCII, so
/// that no text in it can control a terminal. Bytes that are not UTF-8 become U+FFFD.
std::string JsonLogLine(std::chrono::system_clock::time_point time, LogLevel level, std::string_view message,
                        const LogFields& fields);

/// Returns the line in plain ASCII if it is already one JSON object; nullopt otherwise.
std::optional<std::string> AsJsonLogLine(std::string_view line);

}  // namespace quire
