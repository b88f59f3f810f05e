#include "coordinator/text/answers/json_scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "comm/base/json.h"

namespace quire {

namespace {

constexpr size_t kMaxScalarBytes = 512;

bool IsScalarByte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '+' || c == '.';
}

/// True for a number spelt as in JSON, of any size, because grammars do not limit the size of numbers.
bool IsNumber(std::string_view text) {
  const auto passes = [&](std::string_view any) {
    const bool found = !text.empty() && any.find(text.front()) != std::string_view::npos;
    if (found) text.remove_prefix(1);
    return found;
  };
  constexpr std::string_view kDigits = "0123456789";
  const auto passes_digits = [&] {
    const size_t count = std::min(text.find_first_not_of(kDigits), text.size());
    text.remove_prefix(count);
    return count > 0;
  };
  passes("-");
  if (!passes("0") && !passes_digits()) return false;
  if (passes(".") && !passes_digits()) return false;
  if (passes("eE")) {
    passes("+-");
    if (!passes_digits()) return false;
  }
  return text.empty();
}

}  // namespace

JsonScanner::Status JsonScanner::Next(char c) {
  switch (expects_) {
    case Expects::kString:
      if (c == '\\') expects_ = Expects::kEscape;
      if (c == '"') expects_ = string_is_key_ ? Expects::kColon : Expects::kCommaOrEnd;
      return Status::kMore;
    case Expects::kEscape:
      if (hex_digits_ > 0) {
        if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return Status::kError;
        if (--hex_digits_ == 0) expects_ = Expects::kString;
      } else if (c == 'u') {
        hex_digits_ = 4;
      } else if (std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos) {
        expects_ = Expects::kString;
      } else {
        return Status::kError;
      }
      return Status::kMore;
    case Expects::kScalar:
      if (IsScalarByte(c)) {
        scalar_ += c;
        return scalar_.size() < kMaxScalarBytes ? Status::kMore : Status::kError;
      }
      if (!ScalarIsWhole()) return Status::kError;
      expects_ = Expects::kCommaOrEnd;
      return Structure(c);
    default:
      return Structure(c);
  }
}

JsonScanner::Status JsonScanner::Structure(char c) {
  if (IsJsonSpace(c)) return Status::kMore;
  switch (expects_) {
    case Expects::kObject:
      return c == '{' ? BeginValue(c) : Status::kError;
    case Expects::kKeyOrEnd:
      if (c == '}') return Close(c);
      [[fallthrough]];
    case Expects::kKey:
      if (c != '"') return Status::kError;
      string_is_key_ = true;
      expects_ = Expects::kString;
      return Status::kMore;
    case Expects::kColon:
      if (c != ':') return Status::kError;
      expects_ = Expects::kValue;
      return Status::kMore;
    case Expects::kValueOrEnd:
      if (c == ']') return Close(c);
      [[fallthrough]];
    case Expects::kValue:
      return BeginValue(c);
    default:
      if (c != ',') return Close(c);
      expects_ = open_.back() == '{' ? Expects::kKey : Expects::kValue;
      return Status::kMore;
  }
}

JsonScanner::Status JsonScanner::BeginValue(char c) {
  if (c == '{' || c == '[') {
    if (open_.size() == kMaxDepth) return Status::kError;
    open_ += c;
    expects_ = c == '{' ? Expects::kKeyOrEnd : Expects::kValueOrEnd;
  } else if (c == '"') {
    string_is_key_ = false;
    expects_ = Expects::kString;
  } else if (IsScalarByte(c)) {
    scalar_ = c;
    expects_ = Expects::kScalar;
  } else {
    return Status::kError;
  }
  return Status::kMore;
}

JsonScanner::Status JsonScanner::Close(char c) {
  if (open_.empty() || c != (open_.back() == '{' ? '}' : ']')) return Status::kError;
  open_.pop_back();
  expects_ = Expects::kCommaOrEnd;
  return open_.empty() ? Status::kDone : Status::kMore;
}

bool JsonScanner::ScalarIsWhole() const {
  return scalar_ == "true" || scalar_ == "false" || scalar_ == "null" || IsNumber(scalar_);
}

bool IsJsonObject(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kJsonSpace), text.size()));
  JsonScanner scanner;
  for (size_t i = 0; i < text.size(); ++i) {
    const JsonScanner::Status status = scanner.Next(text[i]);
    if (status == JsonScanner::Status::kError) return false;
    if (status == JsonScanner::Status::kDone)
      return text.find_first_not_of(kJsonSpace, i + 1) == std::string_view::npos && Json::accept(text);
  }
  return false;
}

void AppendInsideString(char c, std::string& out) {
  if (static_cast<unsigned char>(c) >= 0x20) {
    out += c;
  } else if (c == '\n') {
    out += "\\n";
  } else if (c == '\t') {
    out += "\\t";
  } else {
    out += fmt::format("\\u{:04x}", static_cast<int>(c));
  }
}

std::string JsonString(std::string_view text) { return DumpJson(Json(text)); }

}  // namespace quire
