#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// Encodes a text that clients store and send back without reading it. The encoding does not hide the text.
std::string SealText(std::string_view text);

/// Decodes what SealText has returned; nullopt for any other text.
std::optional<std::string> OpenText(std::string_view sealed);

/// Returns the most bytes of SealText's result for a text of `bytes` bytes.
constexpr size_t SealedBytes(size_t bytes) { return 32 + bytes / 3 * 4; }

}  // namespace quire
