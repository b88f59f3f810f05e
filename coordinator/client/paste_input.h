#pragma once

#include <string>

namespace quire {

/// Terminals put marks around what is pasted once they are asked to (bracketed paste). Line ends and tabs between
/// marks are part of the message: the line editor gets a visible sign for each, and does not send at the first of them.
class PasteInput {
 public:
  PasteInput();   // asks the terminal for marks; the line editor reads through this object
  ~PasteInput();  // asks for no more marks
  PasteInput(const PasteInput&) = delete;
  PasteInput& operator=(const PasteInput&) = delete;

  /// The text of an edited line: the signs are line ends and tabs again.
  static std::string Text(const std::string& line);
};

}  // namespace quire
