#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// Returns the bytes as a byte-level vocabulary writes them, each as one printable character (GPT-2's table): printable
/// Latin-1 characters stay, other bytes become U+0100 and up, in the order of the bytes.
std::string BytesToAlphabet(std::string_view bytes);

/// Reverses BytesToAlphabet: returns the bytes of such a text; nullopt when the text has a character outside of the
/// alphabet.
std::optional<std::string> AlphabetToBytes(std::string_view text);

}  // namespace quire
