#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// Returns the bytes as a byte-level vocabulary writes them, each as one printable character: printable Latin-1 bytes
/// as themselves, the others as U+0100 and up, in byte order (GPT-2's table).
std::string BytesToAlphabet(std::string_view bytes);

/// Returns the bytes of which BytesToAlphabet makes this text; nullopt when the text has a character outside the
/// alphabet.
std::optional<std::string> AlphabetToBytes(std::string_view text);

}  // namespace quire
