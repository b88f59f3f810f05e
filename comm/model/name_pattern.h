#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// A regular expression in Python's syntax, for names of modules.
class NamePattern {
 public:
  /// Throws Error, which begins with `what`, when the pattern is not valid, or longer than 4 KiB.
  NamePattern(const std::string& pattern, const std::string& what);
  ~NamePattern();
  NamePattern(NamePattern&&) noexcept;
  NamePattern& operator=(NamePattern&&) noexcept;

  /// True when the pattern matches the whole name. Throws Error, which begins with the constructor's `what`, when a
  /// match takes too much work.
  bool Matches(std::string_view name) const;
  /// The number that the pattern's group "number" matches in the whole name; nothing where the pattern does not match.
  std::optional<int64_t> NumberIn(std::string_view name) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace quire
