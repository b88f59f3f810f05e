#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quire::jinja {

enum class TokenKind {
  kText,
  kPrintBegin,
  kPrintEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd
};

struct Token {
  TokenKind kind;
  std::string text;  // text of names, operators and literals; strings are unescaped
  int line;
};

/// Splits a template into tokens and applies whitespace control, with HF's settings for chat templates. "-" at an end
/// of a tag trims all whitespace on that side. The first newline after a block tag or a comment is dropped. Blanks
/// before a block tag or a comment at the beginning of a line are dropped. With "+" at an end of a block tag, the
/// newline or the blanks on that side stay. Throws Error with the line.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace quire::jinja
