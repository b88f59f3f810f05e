#pragma once

#include <chrono>

namespace quire {

/// Returns the Unix time in seconds.
inline double UnixNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace quire
