#pragma once

#include <string>

namespace quire {

/// Keeps pasted text together: terminals can put marks around it (bracketed paste). Line ends and tabs between the
/// marks are part of the message. The line editor shows a visible sign for each, and does not send the message at the
/// first line end.
class PasteInput {
 public:
  PasteInput();   // asks the terminal for marks; the line editor reads through this object
  ~PasteInput();  // asks for no more marks
  PasteInput(const PasteInput&) = delete;
  PasteInput& operator=(const PasteInput&) = delete;

  /// Returns the text of an edited line: the signs are line ends and tabs again.
  static std::string Text(const std::string& line);
};

}  // namespace quire
