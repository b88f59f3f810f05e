#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace quire {

/// Returns a number of bytes in words: "1.50 GiB" or "20.0 MiB".
inline std::string Size(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return bytes >= int64_t{1} << 30 ? fmt::format("{:.2f} GiB", value / (1 << 30))
                                   : fmt::format("{:.1f} MiB", value / (1 << 20));
}

}  // namespace quire
