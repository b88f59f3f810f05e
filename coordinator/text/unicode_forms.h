#pragma once

#include <string>
#include <string_view>

namespace quire {

/// Unicode's normal forms, of version 9.0 (newer_characters.h).
enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

/// Valid UTF-8 in that form, in time that is linear in its length but for a logarithm.
std::string ToForm(std::string_view text, UnicodeForm form);

}  // namespace quire
