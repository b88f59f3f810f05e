#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "coordinator/text/jinja/ast.h"
#include "coordinator/text/jinja/token_cursor.h"

namespace quire::jinja {

/// Parses expressions by recursive descent, from the operators that bind loosest to those that bind tightest.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenCursor& cursor) : in_(cursor) {}

  /// Parses one expression, or several separated by commas as a tuple.
  ExpressionPtr ParseTuple();
  ExpressionPtr ParseExpression();
  /// Parses an expression up to an "if" that follows, which stays unread. In {% for x in list if test %} that "if"
  /// belongs to the loop, not to the list.
  ExpressionPtr ParseOr();
  /// Parses the filters after a block's name, which apply to the rendered block: name(arguments) | name ...
  ExpressionPtr ParseBlockFilters();

 private:
  ExpressionPtr Make(Expression::Kind kind, std::string text = "");
  ExpressionPtr Make(Expression::Kind kind, std::string text, ExpressionPtr a, ExpressionPtr b = nullptr);
  void AddOperand(Expression& e, ExpressionPtr operand) const;
  /// Makes the height of `e` larger than that of its operand `below` (may be null). Throws Error when the height
  /// exceeds kMaxHeight.
  void Raise(Expression& e, const Expression* below) const;
  bool EndsTuple() const;
  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseComparison();
  /// If the next token is one of these operators, takes and returns it; otherwise returns "".
  std::string TakeOneOf(std::initializer_list<const char*> operators);
  std::string TakeComparison();
  ExpressionPtr ParseSum();
  ExpressionPtr ParseConcatenation();
  ExpressionPtr ParseProduct();
  ExpressionPtr ParseUnary();
  ExpressionPtr ParsePower();
  ExpressionPtr ParseExponent();
  ExpressionPtr ParseFilters(ExpressionPtr e);
  ExpressionPtr ParseFilter(ExpressionPtr input);
  bool StartsTestArgument() const;
  void ParseArguments(Expression& call);
  ExpressionPtr ParsePostfix(ExpressionPtr e);
  ExpressionPtr ParseSubscript(ExpressionPtr of);
  ExpressionPtr ParsePrimary();
  std::string AdjacentStrings(std::string text);
  ExpressionPtr NameOrConstant(const std::string& name, ExpressionPtr e);
  ExpressionPtr ParseItems(Expression::Kind kind, const char* close);

  TokenCursor& in_;
};

}  // namespace quire::jinja
