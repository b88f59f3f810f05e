#include "coordinator/text/jinja/expression_parser.h"

#include <algorithm>

#include "comm/base/error.h"

namespace quire::jinja {

namespace {
constexpr int kMaxHeight = 500;  // height of an expression tree
}  // namespace

using Kind = Expression::Kind;

ExpressionPtr ExpressionParser::Make(Kind kind, std::string text) {
  auto e = std::make_unique<Expression>();
  e->kind = kind;
  e->line = in_.Peek().line;
  e->text = std::move(text);
  return e;
}
ExpressionPtr ExpressionParser::Make(Kind kind, std::string text, ExpressionPtr a, ExpressionPtr b) {
  auto e = Make(kind, std::move(text));
  AddOperand(*e, std::move(a));
  if (b) AddOperand(*e, std::move(b));
  return e;
}

void ExpressionParser::Raise(Expression& e, const Expression* below) const {
  // A chain such as 1 + 1 + 1 ... makes a tree as high as the chain is long. Evaluation and destruction recurse over
  // the tree.
  if (below != nullptr) e.height = std::max(e.height, 1 + below->height);
  if (e.height > kMaxHeight) in_.Refuse(fmt::format("an expression is too long: it nests deeper than {}", kMaxHeight));
}

void ExpressionParser::AddOperand(Expression& e, ExpressionPtr operand) const {
  Raise(e, operand.get());
  e.operands.push_back(std::move(operand));
}

ExpressionPtr ExpressionParser::ParseTuple() {
  ExpressionPtr first = ParseExpression();
  if (!in_.IsOperator(",")) return first;
  auto tuple = Make(Kind::kTuple, "", std::move(first));
  while (in_.TakeOperator(",") && !EndsTuple()) AddOperand(*tuple, ParseExpression());
  return tuple;
}

/// True after a trailing comma, when no further item of the tuple follows.
bool ExpressionParser::EndsTuple() const {
  return in_.IsOperator(")") || in_.Peek().kind == TokenKind::kPrintEnd || in_.Peek().kind == TokenKind::kBlockEnd;
}

ExpressionPtr ExpressionParser::ParseExpression() {
  in_.Enter();
  ExpressionPtr e = ParseOr();
  while (in_.TakeName("if")) {
    auto conditional = Make(Kind::kConditional, "", std::move(e), ParseOr());
    AddOperand(*conditional, in_.TakeName("else") ? ParseExpression() : nullptr);
    e = std::move(conditional);
  }
  in_.Leave();
  return e;
}

ExpressionPtr ExpressionParser::ParseOr() {
  ExpressionPtr e = ParseAnd();
  while (in_.TakeName("or")) e = Make(Kind::kBinary, "or", std::move(e), ParseAnd());
  return e;
}

ExpressionPtr ExpressionParser::ParseAnd() {
  ExpressionPtr e = ParseNot();
  while (in_.TakeName("and")) e = Make(Kind::kBinary, "and", std::move(e), ParseNot());
  return e;
}

ExpressionPtr ExpressionParser::ParseNot() {
  int count = 0;
  while (in_.TakeName("not")) ++count;
  ExpressionPtr e = ParseComparison();
  for (; count > 0; --count) e = Make(Kind::kUnary, "not", std::move(e));
  return e;
}

std::string ExpressionParser::TakeOneOf(std::initializer_list<const char*> operators) {
  for (const char* op : operators) {
    if (in_.TakeOperator(op)) return op;
  }
  return "";
}

std::string ExpressionParser::TakeComparison() {
  const std::string op = TakeOneOf({"==", "!=", "<=", ">=", "<", ">"});
  if (!op.empty()) return op;
  if (in_.TakeName("in")) return "in";
  if (!in_.IsName("not") || !in_.IsName("in", 1)) return "";
  in_.Next();
  in_.Next();
  return "not in";
}

ExpressionPtr ExpressionParser::ParseComparison() {
  ExpressionPtr first = ParseSum();
  std::string op = TakeComparison();
  if (op.empty()) return first;
  auto comparison = Make(Kind::kComparison, "", std::move(first));
  for (; !op.empty(); op = TakeComparison()) {
    comparison->operators.push_back(op);
    AddOperand(*comparison, ParseSum());
  }
  return comparison;
}

ExpressionPtr ExpressionParser::ParseSum() {
  ExpressionPtr e = ParseConcatenation();
  for (std::string op = TakeOneOf({"+", "-"}); !op.empty(); op = TakeOneOf({"+", "-"}))
    e = Make(Kind::kBinary, op, std::move(e), ParseConcatenation());
  return e;
}

ExpressionPtr ExpressionParser::ParseConcatenation() {
  ExpressionPtr e = ParseProduct();
  while (in_.TakeOperator("~")) e = Make(Kind::kBinary, "~", std::move(e), ParseProduct());
  return e;
}

ExpressionPtr ExpressionParser::ParseProduct() {
  ExpressionPtr e = ParseUnary();
  for (;;) {
    const std::string op = TakeOneOf({"//", "*", "/", "%"});
    if (op.empty()) return e;
    e = Make(Kind::kBinary, op, std::move(e), ParseUnary());
  }
}

ExpressionPtr ExpressionParser::ParseUnary() {
  if (in_.TakeOperator("-")) return ParseFilters(Make(Kind::kUnary, "-", ParsePower()));
  in_.TakeOperator("+");
  return ParseFilters(ParsePower());
}

ExpressionPtr ExpressionParser::ParsePower() {
  in_.Enter();
  ExpressionPtr e = ParsePostfix(ParsePrimary());
  while (in_.TakeOperator("**")) e = Make(Kind::kBinary, "**", std::move(e), ParseExponent());
  in_.Leave();
  return e;
}

/// Parses an exponent: an optional sign and an operand without a further power, because Jinja's powers associate to the
/// left.
ExpressionPtr ExpressionParser::ParseExponent() {
  const bool negative = in_.TakeOperator("-");
  ExpressionPtr e = ParsePostfix(ParsePrimary());
  return negative ? Make(Kind::kUnary, "-", std::move(e)) : std::move(e);
}

ExpressionPtr ExpressionParser::ParseFilters(ExpressionPtr e) {
  for (;;) {
    if (in_.TakeOperator("|")) {
      e = ParseFilter(std::move(e));
    } else if (in_.TakeName("is")) {
      const bool negated = in_.TakeName("not");
      e = Make(Kind::kTest, in_.ExpectName(), std::move(e));
      if (in_.TakeOperator("(")) {
        ParseArguments(*e);
      } else if (StartsTestArgument()) {
        AddOperand(*e, ParsePostfix(ParsePrimary()));
      }
      if (negated) e = Make(Kind::kUnary, "not", std::move(e));
    } else {
      return e;
    }
  }
}

ExpressionPtr ExpressionParser::ParseFilter(ExpressionPtr input) {
  ExpressionPtr filter = Make(Kind::kFilter, in_.ExpectName(), std::move(input));
  if (in_.TakeOperator("(")) ParseArguments(*filter);
  return filter;
}

ExpressionPtr ExpressionParser::ParseBlockFilters() {
  ExpressionPtr e = ParseFilter(Make(Kind::kName, kRenderedBody));
  while (in_.TakeOperator("|")) e = ParseFilter(std::move(e));
  return e;
}

bool ExpressionParser::StartsTestArgument() const {
  const Token& t = in_.Peek();
  if (t.kind == TokenKind::kString || t.kind == TokenKind::kInteger || t.kind == TokenKind::kFloat) return true;
  if (t.kind == TokenKind::kOperator) return t.text == "[" || t.text == "{";
  static const std::vector<std::string> kNotArguments = {"and", "or", "else", "if", "is", "in", "not"};
  return t.kind == TokenKind::kName &&
         std::find(kNotArguments.begin(), kNotArguments.end(), t.text) == kNotArguments.end();
}

}  // namespace quire::jinja
