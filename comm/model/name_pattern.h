#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// Processor time that several patterns may use together. A file may hold thousands of patterns for thousands of names,
/// so a bound for one match is not enough.
struct PatternTime {
  std::chrono::nanoseconds left = std::chrono::seconds(2);
};

/// A regular expression in Python's syntax, for names of modules.
class NamePattern {
 public:
  /// Throws Error, which begins with `what`, when the pattern is not valid, or longer than 4 KiB. Matches take their
  /// time from `time`.
  NamePattern(const std::string& pattern, const std::string& what,
              std::shared_ptr<PatternTime> time = std::make_shared<PatternTime>());
  ~NamePattern();
  NamePattern(NamePattern&&) noexcept;
  NamePattern& operator=(NamePattern&&) noexcept;

  /// True when the pattern matches the whole name. Throws Error, which begins with the constructor's `what`, when a
  /// match takes too much work, or when no time is left.
  bool Matches(std::string_view name) const;
  /// Returns the number that the pattern's group "number" matches in the whole name; nullopt when the pattern does not
  /// match.
  std::optional<int64_t> NumberIn(std::string_view name) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace quire
