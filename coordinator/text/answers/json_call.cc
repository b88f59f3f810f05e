#include "coordinator/text/answers/json_call.h"

#include <set>
#include <string_view>
#include <utility>

#include "comm/base/json.h"
#include "coordinator/text/answers/json_scanner.h"

namespace quire {

namespace {

constexpr size_t kMaxKeyBytes = 32;

bool IsArguments(std::string_view key) { return key == "arguments" || key == "parameters"; }

}  // namespace

bool JsonCall::IsKnown(std::string_view key) const {
  static const std::set<std::string, std::less<>> kKnown = {"name", "arguments", "parameters", "id", "type", "index"};
  static const std::set<std::string, std::less<>> kKnownOfCommand = {"tool_name", "parameters", "tool_call_id"};
  return (name_key_ == "name" ? kKnown : kKnownOfCommand).contains(key);
}

JsonCall::Status JsonCall::Next(char c) {
  const bool was_in_string = scanner_.in_string();
  const JsonScanner::Status status = scanner_.Next(c);
  if (status == JsonScanner::Status::kError) return Status::kError;
  ended_ = status == JsonScanner::Status::kDone;
  return OnByte(c, was_in_string);
}

JsonCall::Status JsonCall::OnByte(char c, bool was_in_string) {
  switch (phase_) {
    case Phase::kBetween:
      if (ended_) return Over();
      if (c == '"') phase_ = Phase::kKey;
      return Status::kMore;
    case Phase::kKey:
      if (scanner_.in_string()) {
        key_ += c;
        return key_.size() <= kMaxKeyBytes ? Status::kMore : Status::kError;
      }
      phase_ = Phase::kColon;
      return IsKnown(key_) ? Status::kMore : Status::kError;
    case Phase::kColon:
      if (c == ':') phase_ = Phase::kBeforeValue;
      return Status::kMore;
    case Phase::kBeforeValue:
      return IsJsonSpace(c) ? Status::kMore : BeginValue(c);
    case Phase::kValue:
      return InValue(c, was_in_string);
  }
  return Status::kError;
}

JsonCall::Status JsonCall::BeginValue(char c) {
  phase_ = Phase::kValue;
  value_ = c;
  if (!IsArguments(key_)) return Status::kMore;
  if (std::exchange(seen_arguments_, true)) return Status::kError;
  in_arguments_ = c == '{';
  if (in_arguments_) arguments_ = c;
  return Status::kMore;
}

JsonCall::Status JsonCall::InValue(char c, bool was_in_string) {
  const bool inside = scanner_.depth() > 1 || scanner_.in_string();
  const bool over = !inside && (ended_ || c == ',' || IsJsonSpace(c));
  if (!over) {
    std::string& to = in_arguments_ ? arguments_ : value_;
    if (was_in_string) {
      AppendInsideString(c, to);
    } else {
      to += c;
    }
  }
  const bool closed = !inside && !over && (c == '}' || c == ']' || c == '"');
  if (!over && !closed) return Status::kMore;
  if (!EndValue()) return Status::kError;
  if (ended_) return Over();
  phase_ = Phase::kBetween;
  key_.clear();
  return Status::kMore;
}

/// Ends a value. Returns false when this key cannot have a value of this type, or when the name comes a second time.
bool JsonCall::EndValue() {
  if (std::exchange(in_arguments_, false)) return true;
  if (key_ != name_key_ && !IsArguments(key_)) return true;
  const Json value = Json::parse(value_, nullptr, false);
  if (key_ == name_key_) {
    if (!value.is_string() || name_) return false;
    name_ = value.get<std::string>();
    return true;
  }
  if (value.is_null()) {
    arguments_ = "{}";
    return true;
  }
  // Some models write the object of arguments as text, in a JSON string.
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  if (!IsJsonObject(text)) return false;
  arguments_ = text;
  return true;
}

JsonCall::Status JsonCall::Over() {
  if (!name_) return Status::kError;
  if (!std::exchange(seen_arguments_, true)) arguments_ = "{}";
  return Status::kDone;
}

}  // namespace quire
