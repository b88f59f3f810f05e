#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "coordinator/text/answers/json_scanner.h"

namespace quire {

/// Parses one call that is written as an object, byte by byte: {"name": ..., "arguments": {...}}, or with "parameters",
/// with the members in any order.
class JsonCall {
 public:
  /// name_key: the key of the function's name: "name", or "tool_name" as in Command R's calls.
  explicit JsonCall(std::string_view name_key = "name") : name_key_(name_key) {}

  enum class Status { kMore, kDone, kError };
  /// Takes one byte. If the result is kError, the byte belongs to the text after the call. A member that calls do not
  /// have gives kError, so that other JSON is recognised early.
  Status Next(char c);

  /// Returns the function's name; nullopt while it is unknown.
  const std::optional<std::string>& name() const { return name_; }
  /// True while the arguments are being read, and while TakeArguments() has a part to return.
  bool has_arguments() const { return in_arguments_ || !arguments_.empty(); }
  /// Returns the part of the arguments that came since this method was last called. All parts together form an object.
  std::string TakeArguments() { return std::exchange(arguments_, {}); }
  /// Returns the bytes of an incomplete value, and of arguments that TakeArguments() has not returned yet.
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
  bool in_arguments_ = false;  // true: the value is the object of arguments, which is passed on as it arrives
  bool seen_arguments_ = false;
  std::optional<std::string> name_;
  std::string arguments_;
  bool ended_ = false;  // the object has been closed
};

}  // namespace quire
