#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/jinja/lexer.h"

namespace quire::jinja {

/// A position in the tokens of a template. The statement and expression parsers share it.
class TokenCursor {
 public:
  explicit TokenCursor(std::string_view source) : tokens_(Tokenize(source)) {}

  const Token& Peek(size_t ahead = 0) const;
  Token Next();
  /// Throws Error with the current line.
  [[noreturn]] void Refuse(const std::string& reason) const;

  bool IsOperator(const char* text) const { return Peek().kind == TokenKind::kOperator && Peek().text == text; }
  bool IsName(const char* text, size_t ahead = 0) const {
    return Peek(ahead).kind == TokenKind::kName && Peek(ahead).text == text;
  }
  bool TakeOperator(const char* text) { return IsOperator(text) && (Next(), true); }
  bool TakeName(const char* text) { return IsName(text) && (Next(), true); }
  void ExpectOperator(const char* text);
  std::string ExpectName();
  void ExpectBlockEnd();

  /// Counts the nesting of blocks and expressions. Throws Error for templates that nest deeper than kMaxDepth.
  void Enter();
  void Leave() { --depth_; }

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace quire::jinja
