#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// A text that clients keep and send back without looking into it. It hides nothing: there is nothing to hide.
std::string SealText(std::string_view text);

/// Nothing for what SealText did not make.
std::optional<std::string> OpenText(std::string_view sealed);

/// The most bytes that SealText makes of so many.
constexpr size_t SealedBytes(size_t bytes) { return 32 + bytes / 3 * 4; }

}  // namespace quire
