#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// Processor time that several patterns use together. A file may have thousands of patterns for thousands of names, so
/// a bound for a single match is not enough.
struct PatternTime {
  std::chrono::nanoseconds left = std::chrono::seconds(2);
};

/// A regular expression in Python's syntax, for names of modules.
class NamePattern {
 public:
  /// Throws Error, which begins with `what`, when the pattern is invalid or longer than 4 KiB. Matches take their time
  /// from `time`.
  NamePattern(const std::string& pattern, const std::string& what,
              std::shared_ptr<PatternTime> time = std::make_shared<PatternTime>());
  ~NamePattern();
  NamePattern(NamePattern&&) noexcept;
  NamePattern& operator=(NamePattern&&) noexcept;

  /// True when the pattern matches the whole name. Throws Error, which begins with the constructor's `what`, when a
  /// match takes too much work, or when `time` is used up.
  bool Matches(std::string_view name) const;
  /// Returns the number that the pattern's group "number" captures when the pattern matches the whole name; nullopt
  /// when it does not match or the group captures no number.
  std::optional<int64_t> NumberIn(std::string_view name) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace quire
