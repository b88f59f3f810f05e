#include "coordinator/batches/member_text.h"

#include <algorithm>

#include "comm/base/json.h"

namespace quire {

namespace {

/// Walks through the text of a JSON value, token by token.
class Walker {
 public:
  explicit Walker(std::string_view text) : text_(text) {}

  void SkipSpace() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }
  char Next() {
    SkipSpace();
    return at_ < text_.size() ? text_[at_++] : '\0';
  }
  bool at_end() const { return at_ >= text_.size(); }

  /// Returns the value that begins at the current position, up to the comma, colon or closing brace after the value.
  std::string_view Value() {
    SkipSpace();
    const size_t begin = at_;
    size_t end = at_;
    for (int depth = 0; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (depth == 0 && (c == ',' || c == '}' || c == ':')) break;
      if (c == '"') SkipString();
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      if (c != ' ' && c != '\t' && c != '\r' && c != '\n') end = at_ + 1;
    }
    return text_.substr(begin, std::min(end, text_.size()) - begin);
  }

 private:
  /// Moves from a string's opening to its closing quotation mark.
  void SkipString() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) at_ += text_[at_] == '\\' ? 1 : 0;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string_view MemberText(std::string_view object, std::string_view name) {
  Walker walker(object);
  if (walker.Next() != '{') return {};
  while (!walker.at_end()) {
    const std::string_view key = walker.Value();
    if (walker.Next() != ':') return {};
    const std::string_view value = walker.Value();
    if (Json::parse(key, nullptr, false) == name) return value;
    if (walker.Next() != ',') return {};
  }
  return {};
}

}  // namespace quire
