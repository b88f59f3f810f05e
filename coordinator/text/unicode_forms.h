#pragma once

#include <string>
#include <string_view>

namespace quire {

/// Unicode's normal forms, in version 9.0 (newer_characters.h).
enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

/// Converts valid UTF-8 to the form, in O(n log n) time.
std::string ToForm(std::string_view text, UnicodeForm form);

}  // namespace quire
