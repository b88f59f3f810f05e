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

/// Splits a template into tokens and applies whitespace control with the settings that HF uses for chat templates: "-"
/// in a tag trims all whitespace beside it; the first newline after a block is dropped; blanks before a block at the
/// start of a line are dropped. Throws Error with the line.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace quire::jinja
