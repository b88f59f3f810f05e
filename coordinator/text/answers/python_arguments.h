#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// Converts a Python call's arguments, such as `a=1, b=[True, None]` (without the brackets), into the text of a JSON
/// object. Accepts literals only, in any Python spelling. Returns nullopt for other text.
std::optional<std::string> ReadPythonArguments(std::string_view text);

/// Finds the bracket that closes a Python call, in text that arrives in pieces.
class PythonBrackets {
 public:
  /// Searches `text`, which begins after the call's opening bracket and may grow from one call of Find to the next.
  /// Returns true when the bracket is found, at offset place(). at_end: no more text will come.
  bool Find(std::string_view text, bool at_end);
  size_t place() const { return at_ - 1; }

 private:
  bool IsTriple(std::string_view text) const { return text.substr(at_, 3) == std::string(3, text[at_]); }
  bool MayBeTriple(std::string_view text) const {
    return text.size() - at_ < 3 && text.substr(at_) == std::string(text.size() - at_, text[at_]);
  }

  size_t at_ = 0;        // bytes examined
  size_t depth_ = 1;     // open brackets
  char quote_ = 0;       // quotation mark of the open string; 0: none
  bool triple_ = false;  // the open string needs three quotation marks to close
  bool escaped_ = false;
};

}  // namespace quire
