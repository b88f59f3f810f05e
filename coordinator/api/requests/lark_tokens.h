#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quire {

/// A piece of a grammar in lark's notation.
struct LarkToken {
  enum Kind { kName, kText, kPattern, kSign, kNumber, kDirective, kLineEnd };
  Kind kind;
  std::string text;   // of kText what it stands for; of kPattern what is between the slashes
  std::string flags;  // of kText and kPattern
  int line;
};

/// Without comments and blank lines; a line that begins with | goes on with the one before. Throws Error for what can
/// be no part of a grammar, with its line.
std::vector<LarkToken> LarkTokens(std::string_view grammar);

}  // namespace quire
