#pragma once

#include <optional>
#include <string_view>

namespace quire {

/// Returns the pattern that enforces a `format` of JSON Schema; nullopt when the format is not enforced. The patterns
/// are stricter than the standards: every matching text has the format, except for the length limits of domain names.
std::optional<std::string_view> PatternOfFormat(std::string_view format);

}  // namespace quire
