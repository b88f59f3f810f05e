#include "coordinator/text/jinja/expression_parser.h"

#include <algorithm>

#include "comm/base/error.h"

namespace quire::jinja {

namespace {
constexpr int kMaxHeight = 500;  // of an expression's tree
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
  // A chain such as 1 + 1 + 1 ... nests to the left as deep as it is long; evaluation and destruction recurse.
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
  auto list = Make(Kind::kList, "", std::move(first));
  while (in_.TakeOperator(",")) AddOperand(*list, ParseExpression());
  return list;
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

ExpressionPtr ExpressionParser::ParseComparison() {
  ExpressionPtr e = ParseSum();
  for (;;) {
    std::string op;
    for (const char* candidate : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (op.empty() && in_.TakeOperator(candidate)) op = candidate;
    }
    if (op.empty() && in_.TakeName("in")) op = "in";
    if (op.empty() && in_.IsName("not") && in_.IsName("in", 1)) in_.Next(), in_.Next(), op = "not in";
    if (op.empty()) return e;
    e = Make(Kind::kBinary, op, std::move(e), ParseSum());
  }
}

ExpressionPtr ExpressionParser::ParseSum() {
  ExpressionPtr e = ParseConcatenation();
  for (;;) {
    if (in_.TakeOperator("+"))
      e = Make(Kind::kBinary, "+", std::move(e), ParseConcatenation());
    else if (in_.TakeOperator("-"))
      e = Make(Kind::kBinary, "-", std::move(e), ParseConcatenation());
    else
      return e;
  }
}

ExpressionPtr ExpressionParser::ParseConcatenation() {
  ExpressionPtr e = ParseProduct();
  while (in_.TakeOperator("~")) e = Make(Kind::kBinary, "~", std::move(e), ParseProduct());
  return e;
}

ExpressionPtr ExpressionParser::ParseProduct() {
  ExpressionPtr e = ParseUnary();
  for (;;) {
    std::string op;
    for (const char* candidate : {"//", "*", "/", "%"}) {
      if (op.empty() && in_.TakeOperator(candidate)) op = candidate;
    }
    if (op.empty()) return e;
    e = Make(Kind::kBinary, op, std::move(e), ParseUnary());
  }
}

ExpressionPtr ExpressionParser::ParseUnary() {
  if (in_.TakeOperator("-")) return ParseFilters(Make(Kind::kUnary, "-", ParsePower()));
  if (in_.TakeOperator("+")) return ParseFilters(ParsePower());
  return ParseFilters(ParsePower());
}

ExpressionPtr ExpressionParser::ParsePower() {
  in_.Enter();
  ExpressionPtr e = ParsePostfix(ParsePrimary());
  if (in_.TakeOperator("**")) e = Make(Kind::kBinary, "**", std::move(e), ParseUnary());
  in_.Leave();
  return e;
}

ExpressionPtr ExpressionParser::ParseFilters(ExpressionPtr e) {
  for (;;) {
    if (in_.TakeOperator("|")) {
      e = Make(Kind::kFilter, in_.ExpectName(), std::move(e));
      if (in_.TakeOperator("(")) ParseArguments(*e);
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

bool ExpressionParser::StartsTestArgument() const {
  const Token& t = in_.Peek();
  if (t.kind == TokenKind::kString || t.kind == TokenKind::kInteger || t.kind == TokenKind::kFloat) return true;
  if (t.kind == TokenKind::kOperator) return t.text == "[";
  static const std::vector<std::string> kNotArguments = {"and", "or", "else", "if", "is", "in", "not"};
  return t.kind == TokenKind::kName &&
         std::find(kNotArguments.begin(), kNotArguments.end(), t.text) == kNotArguments.end();
}

/// After "(".
void ExpressionParser::ParseArguments(Expression& call) {
  while (!in_.TakeOperator(")")) {
    if (in_.Peek().kind == TokenKind::kName && in_.Peek(1).kind == TokenKind::kOperator && in_.Peek(1).text == "=") {
      std::string name = in_.Next().text;
      in_.Next();
      call.named.emplace_back(std::move(name), ParseExpression());
      Raise(call, call.named.back().second.get());
    } else {
      AddOperand(call, ParseExpression());
    }
    if (!in_.IsOperator(")")) in_.ExpectOperator(",");
  }
}

ExpressionPtr ExpressionParser::ParsePostfix(ExpressionPtr e) {
  for (;;) {
    if (in_.TakeOperator(".")) {
      if (in_.Peek().kind == TokenKind::kInteger) {
        auto index = Make(Kind::kLiteral);
        index->value = Value(static_cast<int64_t>(std::stoll(in_.Next().text)));
        e = Make(Kind::kSubscript, "", std::move(e), std::move(index));
      } else {
        e = Make(Kind::kAttribute, in_.ExpectName(), std::move(e));
      }
    } else if (in_.TakeOperator("[")) {
      e = ParseSubscript(std::move(e));
    } else if (in_.TakeOperator("(")) {
      e = Make(Kind::kCall, "", std::move(e));
      ParseArguments(*e);
    } else {
      return e;
    }
  }
}

ExpressionPtr ExpressionParser::ParseSubscript(ExpressionPtr of) {
  ExpressionPtr parts[3];
  size_t colons = 0;
  while (!in_.IsOperator("]")) {
    if (in_.TakeOperator(":")) {
      if (++colons > 2) in_.Refuse("too many ':' in a slice");
    } else {
      parts[colons] = ParseExpression();
    }
  }
  in_.Next();
  if (colons == 0) {
    if (!parts[0]) in_.Refuse("an empty subscript");
    return Make(Kind::kSubscript, "", std::move(of), std::move(parts[0]));
  }
  auto slice = Make(Kind::kSlice, "", std::move(of));
  for (auto& part : parts) AddOperand(*slice, std::move(part));
  return slice;
}

ExpressionPtr ExpressionParser::ParsePrimary() {
  auto e = Make(Kind::kLiteral);
  const Token token = in_.Next();
  switch (token.kind) {
    case TokenKind::kString:
      e->value = Value::Trusted(AdjacentStrings(token.text));
      return e;
    case TokenKind::kInteger:
      e->value = Value(static_cast<int64_t>(std::stoll(token.text)));
      return e;
    case TokenKind::kFloat:
      e->value = Value(std::stod(token.text));
      return e;
    case TokenKind::kName:
      return NameOrConstant(token.text, std::move(e));
    case TokenKind::kOperator:
      break;
    default:
      in_.Refuse("expected an expression");
  }
  if (token.text == "(") {
    if (in_.TakeOperator(")")) return Make(Kind::kList);
    ExpressionPtr inner = ParseTuple();
    in_.ExpectOperator(")");
    return inner;
  }
  if (token.text == "[") return ParseItems(Kind::kList, "]");
  if (token.text == "{") return ParseItems(Kind::kDict, "}");
  in_.Refuse(fmt::format("unexpected '{}'", token.text));
}

std::string ExpressionParser::AdjacentStrings(std::string text) {
  while (in_.Peek().kind == TokenKind::kString) text += in_.Next().text;
  return text;
}

ExpressionPtr ExpressionParser::NameOrConstant(const std::string& name, ExpressionPtr e) {
  if (name == "true" || name == "True") {
    e->value = Value(true);
  } else if (name == "false" || name == "False") {
    e->value = Value(false);
  } else if (name != "none" && name != "None") {
    e->kind = Kind::kName;
    e->text = name;
  }
  return e;
}

ExpressionPtr ExpressionParser::ParseItems(Kind kind, const char* close) {
  auto e = Make(kind);
  while (!in_.TakeOperator(close)) {
    AddOperand(*e, ParseExpression());
    if (kind == Kind::kDict) {
      in_.ExpectOperator(":");
      AddOperand(*e, ParseExpression());
    }
    if (!in_.IsOperator(close)) in_.ExpectOperator(",");
  }
  return e;
}

}  // namespace quire::jinja
