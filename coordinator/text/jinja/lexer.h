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
  std::string text;  // of names, operators and literals; strings are unescaped
  int line;
};

/// Cuts a template into tokens. Whitespace control is applied here: "-" at a tag trims all whitespace beside it, the
/// first newline after a block is dropped, and blanks before a block at the start of a line are dropped (the settings
/// that HF renders chat templates with). Throws Error with the line.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace quire::jinja
