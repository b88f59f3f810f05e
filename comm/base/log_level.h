#pragma once

#include <array>

#include "comm/base/choice.h"

namespace quire {

/// The least serious level that is logged.
enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError };
constexpr auto ChoicesOf(LogLevel) {
  return std::to_array<Choice<LogLevel>>({{LogLevel::kTrace, "trace"},
                                          {LogLevel::kDebug, "debug"},
                                          {LogLevel::kInfo, "info"},
                                          {LogLevel::kWarn, "warn"},
                                          {LogLevel::kError, "error"}});
}

}  // namespace quire
