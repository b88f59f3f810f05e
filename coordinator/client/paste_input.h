#pragma once

#include <string>

namespace quire {

/// Makes one message of a pasted text of several lines. Terminals can put marks around pasted text (bracketed paste).
/// Between the marks, line ends and tabs belong to the message: the line editor shows a visible sign for each, and does
/// not send the message at the first line end.
class PasteInput {
 public:
  PasteInput();   // asks the terminal for marks; the line editor reads through this object
  ~PasteInput();  // asks the terminal to send no marks
  PasteInput(const PasteInput&) = delete;
  PasteInput& operator=(const PasteInput&) = delete;

  /// Returns the text of an edited line, with the visible signs turned back into line ends and tabs.
  static std::string Text(const std::string& line);
};

}  // namespace quire
