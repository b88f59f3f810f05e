#pragma once

#include <optional>
#include <string>
#include <utility>

#include "coordinator/text/answers/json_scanner.h"

namespace quire {

/// Follows one call that is written as an object: {"name": ..., "arguments": {...}}, or "parameters", in any order.
class JsonCall {
 public:
  enum class Status { kMore, kDone, kError };
  /// One byte. The byte that was an error belongs to what follows. A member that calls do not have is an error, so that
  /// other JSON is soon known for what it is.
  Status Next(char c);

  /// Once the name is known.
  const std::optional<std::string>& name() const { return name_; }
  /// The arguments have begun, or the call is over.
  bool has_arguments() const { return in_arguments_ || !arguments_.empty(); }
  /// What came of the arguments since the last time; the text of an object in the end.
  std::string TakeArguments() { return std::exchange(arguments_, {}); }
  /// Bytes of values that are kept until they end.
  size_t held_bytes() const { return value_.capacity() + arguments_.capacity(); }

 private:
  enum class Phase { kBetween, kKey, kColon, kBeforeValue, kValue };
  Status OnByte(char c, bool was_in_string);
  Status BeginValue(char c);
  Status InValue(char c, bool was_in_string);
  bool EndValue();
  Status Over();

  JsonScanner scanner_;
  Phase phase_ = Phase::kBetween;
  std::string key_, value_;
  bool in_arguments_ = false;  // the value is handed out as it comes
  bool seen_arguments_ = false;
  std::optional<std::string> name_;
  std::string arguments_;
  bool ended_ = false;  // the object has closed
};

}  // namespace quire
