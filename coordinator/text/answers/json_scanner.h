#pragma once

#include <string>
#include <string_view>

namespace quire {

/// What may stand between JSON's words, and around what models write.
inline constexpr std::string_view kJsonSpace = " \t\r\n";
inline bool IsJsonSpace(char c) { return kJsonSpace.find(c) != std::string_view::npos; }

/// Follows the text of one JSON object byte by byte. Line breaks and other control characters may stand in its strings
/// as they are: models write them.
class JsonScanner {
 public:
  static constexpr size_t kMaxDepth = 64;

  enum class Status { kMore, kDone, kError };
  /// Not to be called again after kDone or kError. The byte that was an error belongs to what follows.
  Status Next(char c);

  /// Objects and lists that are open.
  size_t depth() const { return open_.size(); }
  bool in_string() const { return expects_ == Expects::kString || expects_ == Expects::kEscape; }

 private:
  enum class Expects { kObject, kKeyOrEnd, kKey, kColon, kValue, kValueOrEnd, kCommaOrEnd, kString, kEscape, kScalar };
  Status Structure(char c);
  Status BeginValue(char c);
  Status Close(char c);
  bool ScalarIsWhole() const;

  Expects expects_ = Expects::kObject;
  std::string open_;  // '{' and '[' from the outside in
  bool string_is_key_ = false;
  int hex_digits_ = 0;  // that the escape sequence lacks
  std::string scalar_;  // of a number or a word so far
};

/// Whether the text is one JSON object, no deeper than the scanner goes.
bool IsJsonObject(std::string_view text);

/// Appends a byte of a JSON string as JSON wants it there: control characters become escape sequences.
void AppendInsideString(char c, std::string& out);

/// A text as JSON, with its quotation marks.
std::string JsonString(std::string_view text);

}  // namespace quire
