#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quire {

/// A token of a grammar in lark's notation.
struct LarkToken {
  enum Kind { kName, kText, kPattern, kSign, kNumber, kDirective, kLineEnd };
  Kind kind;
  std::string text;   // kText: the text; kPattern: the part between the slashes
  std::string flags;  // flags of kText and kPattern
  int line;
};

/// Splits a grammar into tokens, without comments and blank lines. A line that begins with | continues the line before,
/// and a line end inside brackets ends no line. Throws Error that names the line for text that is no token.
std::vector<LarkToken> LarkTokens(std::string_view grammar);

}  // namespace quire
