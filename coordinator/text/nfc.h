#pragma once

#include <string>
#include <string_view>

namespace quire {

/// Valid UTF-8 in Unicode's normal form C, in time that is linear in its length but for a logarithm.
std::string ToNfc(std::string_view text);

}  // namespace quire
