#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// Encodes a text that clients store and send back unread. This is no encryption: the text is not secret.
std::string SealText(std::string_view text);

/// Decodes a result of SealText; nullopt for another text.
std::optional<std::string> OpenText(std::string_view sealed);

/// Returns the most bytes that SealText makes of `bytes` bytes.
constexpr size_t SealedBytes(size_t bytes) { return 32 + bytes / 3 * 4; }

}  // namespace quire
