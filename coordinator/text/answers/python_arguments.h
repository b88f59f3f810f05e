#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

/// The text of a JSON object that a Python call's arguments stand for: `a=1, b=[True, None]`, without the brackets
/// around them. Literals only, in any of Python's spellings. Nothing when the text is not that.
std::optional<std::string> ReadPythonArguments(std::string_view text);

/// Finds the bracket that closes a Python call, in text that comes in pieces.
class PythonBrackets {
 public:
  /// Goes on in `text`, which holds all that earlier calls saw and begins behind the call's opening bracket. True: the
  /// bracket is found, and its offset is place(). at_end: there is no more text to come.
  bool Find(std::string_view text, bool at_end);
  size_t place() const { return at_ - 1; }

 private:
  bool IsTriple(std::string_view text) const { return text.substr(at_, 3) == std::string(3, text[at_]); }
  bool MayBeTriple(std::string_view text) const {
    return text.size() - at_ < 3 && text.substr(at_) == std::string(text.size() - at_, text[at_]);
  }

  size_t at_ = 0;        // of the text was looked at
  size_t depth_ = 1;     // brackets that are open
  char quote_ = 0;       // of the string that is open
  bool triple_ = false;  // which three quotation marks close
  bool escaped_ = false;
};

}  // namespace quire
