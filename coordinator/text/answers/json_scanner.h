#pragma once

#include <string>
#include <string_view>

namespace quire {

/// Whitespace that is allowed between JSON tokens and around the JSON texts of models.
inline constexpr std::string_view kJsonSpace = " \t\r\n";
inline bool IsJsonSpace(char c) { return kJsonSpace.find(c) != std::string_view::npos; }

/// Checks the text of one JSON object byte by byte. Strings may contain raw control characters such as line breaks,
/// because models write them.
class JsonScanner {
 public:
  static constexpr size_t kMaxDepth = 64;

  enum class Status { kMore, kDone, kError };
  /// Takes the next byte. Must not be called after it has returned kDone or kError. If the result is kError, the byte
  /// belongs to the text after the object.
  Status Next(char c);

  /// Returns the number of open objects and lists.
  size_t depth() const { return open_.size(); }
  bool in_string() const { return expects_ == Expects::kString || expects_ == Expects::kEscape; }

 private:
  enum class Expects { kObject, kKeyOrEnd, kKey, kColon, kValue, kValueOrEnd, kCommaOrEnd, kString, kEscape, kScalar };
  Status Structure(char c);
  Status BeginValue(char c);
  Status Close(char c);
  bool ScalarIsWhole() const;

  Expects expects_ = Expects::kObject;
  std::string open_;  // '{' and '[', outermost first
  bool string_is_key_ = false;
  int hex_digits_ = 0;  // digits that are still missing from an escape sequence
  std::string scalar_;  // the number or word that is being read
};

/// True when the text is one JSON object whose values nest at most kMaxDepth deep.
bool IsJsonObject(std::string_view text);

/// Appends one byte of a JSON string's content; escapes it if it is a control character.
void AppendInsideString(char c, std::string& out);

/// Returns a text as a JSON string with quotation marks.
std::string JsonString(std::string_view text);

}  // namespace quire
