#pragma once

#include <array>

#include "comm/base/choice.h"

namespace quire {

/// The form of a program's log: lines of text, or lines that are JSON objects.
enum class LogFormat { kText, kJson };
constexpr auto ChoicesOf(LogFormat) {
  return std::to_array<Choice<LogFormat>>({{LogFormat::kText, "text"}, {LogFormat::kJson, "json"}});
}

}  // namespace quire
