// Parses operands: literals, names, lists, mappings, and the calls, attributes, subscripts and slices after them.
#include <fmt/format.h>

#include <cstdlib>

#include "coordinator/text/jinja/expression_parser.h"

namespace quire::jinja {

using Kind = Expression::Kind;

/// Parses the arguments of a call, after "(".
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
      e->value = Value(std::strtod(token.text.c_str(), nullptr));  // infinity beyond a double's range, as in Python
      return e;
    case TokenKind::kName:
      return NameOrConstant(token.text, std::move(e));
    case TokenKind::kOperator:
      break;
    default:
      in_.Refuse("expected an expression");
  }
  if (token.text == "(") {
    if (in_.TakeOperator(")")) return Make(Kind::kTuple);
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
