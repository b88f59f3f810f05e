#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "coordinator/text/jinja/ast.h"
#include "coordinator/text/jinja/token_cursor.h"

namespace quire::jinja {

/// Expressions, by recursive descent from the loosest binding to the tightest.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenCursor& cursor) : in_(cursor) {}

  /// An expression, or several with commas between as a tuple.
  ExpressionPtr ParseTuple();
  ExpressionPtr ParseExpression();
  /// Without a trailing "if": what a for loop walks over.
  ExpressionPtr ParseOr();
  /// Filters behind a block's name, of what the block renders: name(arguments) | name ...
  ExpressionPtr ParseBlockFilters();

 private:
  ExpressionPtr Make(Expression::Kind kind, std::string text = "");
  ExpressionPtr Make(Expression::Kind kind, std::string text, ExpressionPtr a, ExpressionPtr b = nullptr);
  void AddOperand(Expression& e, ExpressionPtr operand) const;
  /// Counts `below` (may be null) into the height of `e`; refuses what is too high.
  void Raise(Expression& e, const Expression* below) const;
  bool EndsTuple() const;
  ExpressionPtr ParseAnd();
  ExpressionPtr ParseNot();
  ExpressionPtr ParseComparison();
  /// The operator that follows of those; empty when none does.
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
