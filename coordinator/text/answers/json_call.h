#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "coordinator/text/answers/json_scanner.h"

namespace quire {

/// Parses one call written as an object, byte by byte: {"name": ..., "arguments": {...}}, or with "parameters", in any
/// order.
class JsonCall {
 public:
  /// name_key: the member with the function's name: "name", or "tool_name" as in calls of Command R.
  explicit JsonCall(std::string_view name_key = "name") : name_key_(name_key) {}

  enum class Status { kMore, kDone, kError };
  /// Takes one byte. After kError that byte belongs to the following text. A member that calls do not have is an error,
  /// so that other JSON is recognised early.
  Status Next(char c);

  /// Returns the function's name; nullopt while it is unknown.
  const std::optional<std::string>& name() const { return name_; }
  /// True once the arguments have begun or the call has ended.
  bool has_arguments() const { return in_arguments_ || !arguments_.empty(); }
  /// Returns the new part of the arguments since the last call of this method; in the end they form an object.
  std::string TakeArguments() { return std::exchange(arguments_, {}); }
  /// Returns the bytes of unfinished values that are held.
  size_t held_bytes() const { return value_.capacity() + arguments_.capacity(); }

 private:
  enum class Phase { kBetween, kKey, kColon, kBeforeValue, kValue };
  Status OnByte(char c, bool was_in_string);
  Status BeginValue(char c);
  Status InValue(char c, bool was_in_string);
  bool EndValue();
  Status Over();

  bool IsKnown(std::string_view key) const;

  std::string_view name_key_;
  JsonScanner scanner_;
  Phase phase_ = Phase::kBetween;
  std::string key_, value_;
  bool in_arguments_ = false;  // true: the value is of the arguments, and is passed on as it arrives
  bool seen_arguments_ = false;
  std::optional<std::string> name_;
  std::string arguments_;
  bool ended_ = false;  // the object has been closed
};

}  // namespace quire
