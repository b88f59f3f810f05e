#include <algorithm>

#include "comm/base/error.h"
#include "coordinator/text/jinja/ast.h"
#include "coordinator/text/jinja/expression_parser.h"

namespace quire::jinja {

namespace {

/// Parses statements; ExpressionParser parses the expressions.
class Parser {
 public:
  explicit Parser(std::string_view source) : in_(source), expressions_(in_) {}

  Body Template() {
    Body body = ParseBody({});
    if (in_.Peek().kind != TokenKind::kEnd) in_.Refuse("unexpected end of a block");
    return body;
  }

 private:
  /// Parses statements up to a block tag that begins with one of `ends`; the caller consumes that tag.
  Body ParseBody(const std::vector<std::string>& ends) {
    in_.Enter();
    Body body;
    for (;;) {
      const Token& token = in_.Peek();
      if (token.kind == TokenKind::kEnd) break;
      if (token.kind == TokenKind::kBlockBegin && std::find(ends.begin(), ends.end(), in_.Peek(1).text) != ends.end())
        break;
      auto statement = std::make_unique<Statement>();
      statement->line = token.line;
      if (token.kind == TokenKind::kText) {
        statement->kind = Statement::Kind::kText;
        statement->text = in_.Next().text;
      } else if (token.kind == TokenKind::kPrintBegin) {
        in_.Next();
        statement->kind = Statement::Kind::kPrint;
        statement->expression = expressions_.ParseTuple();
        if (in_.Next().kind != TokenKind::kPrintEnd) in_.Refuse("expected '}}'");
      } else {
        in_.Next();
        if (!ParseBlock(*statement, body)) continue;
      }
      body.push_back(std::move(statement));
    }
    in_.Leave();
    return body;
  }

  void ExpectEnd(const char* name) {
    if (in_.Peek().kind != TokenKind::kBlockBegin || !in_.IsName(name, 1)) in_.Refuse(fmt::format("expected {}", name));
    in_.Next();
    in_.Next();
    in_.ExpectBlockEnd();
  }

  /// Parses the statement after "{%" into `s`. Returns false when `s` is not used, because the statements were added to
  /// `enclosing`.
  bool ParseBlock(Statement& s, Body& enclosing) {
    const std::string name = in_.ExpectName();
    if (name == "if") return ParseIf(s);
    if (name == "for") return ParseFor(s);
    if (name == "set") return ParseSet(s);
    if (name == "macro") return ParseMacro(s);
    if (name == "filter") return ParseFilterBlock(s);
    if (name == "with") return ParseWith(s);
    if (name == "break" || name == "continue") {
      s.kind = name == "break" ? Statement::Kind::kBreak : Statement::Kind::kContinue;
      in_.ExpectBlockEnd();
      return true;
    }
    if (name == "generation") {  // marks the assistant's part for training; rendered as its body
      in_.ExpectBlockEnd();
      for (auto& inner : ParseBody({"endgeneration"})) enclosing.push_back(std::move(inner));
      ExpectEnd("endgeneration");
      return false;
    }
    in_.Refuse(fmt::format("statement \"{}\" is not supported", name));
  }

  bool ParseIf(Statement& s) {
    s.kind = Statement::Kind::kIf;
    ExpressionPtr condition = expressions_.ParseTuple();
    for (;;) {
      in_.ExpectBlockEnd();
      Body body = ParseBody({"elif", "else", "endif"});
      const bool was_else = condition == nullptr;
      s.branches.emplace_back(std::move(condition), std::move(body));
      if (in_.Peek().kind != TokenKind::kBlockBegin || in_.IsName("endif", 1) || was_else) break;
      in_.Next();
      condition = in_.Next().text == "elif" ? expressions_.ParseTuple() : nullptr;
    }
    ExpectEnd("endif");
    return true;
  }

  /// Parses names separated by commas, perhaps in brackets.
  void ParseTargets(Statement& s) {
    const bool bracket = in_.TakeOperator("(");
    do s.targets.push_back(in_.ExpectName());
    while (in_.TakeOperator(","));
    if (bracket) in_.ExpectOperator(")");
  }

  bool ParseFor(Statement& s) {
    s.kind = Statement::Kind::kFor;
    ParseTargets(s);
    if (!in_.TakeName("in")) in_.Refuse("expected 'in'");
    s.expression = expressions_.ParseOr();
    if (in_.TakeName("if")) s.condition = expressions_.ParseTuple();
    in_.ExpectBlockEnd();
    s.body = ParseBody({"else", "endfor"});
    if (in_.IsName("else", 1)) {
      in_.Next();
      in_.Next();
      in_.ExpectBlockEnd();
      s.otherwise = ParseBody({"endfor"});
    }
    ExpectEnd("endfor");
    return true;
  }

  bool ParseSet(Statement& s) {
    s.kind = Statement::Kind::kSet;
    ParseTargets(s);
    if (in_.TakeOperator(".")) s.attribute = in_.ExpectName();
    if (in_.TakeOperator("=")) {
      s.expression = expressions_.ParseTuple();
      in_.ExpectBlockEnd();
    } else {
      if (in_.TakeOperator("|")) s.expression = expressions_.ParseBlockFilters();
      in_.ExpectBlockEnd();
      s.is_block = true;
      s.body = ParseBody({"endset"});
      ExpectEnd("endset");
    }
    return true;
  }

  bool ParseMacro(Statement& s) {
    s.kind = Statement::Kind::kMacro;
    s.text = in_.ExpectName();
    in_.ExpectOperator("(");
    while (!in_.TakeOperator(")")) {
      std::string parameter = in_.ExpectName();
      ExpressionPtr otherwise = in_.TakeOperator("=") ? expressions_.ParseExpression() : nullptr;
      s.parameters.emplace_back(std::move(parameter), std::move(otherwise));
      if (!in_.IsOperator(")")) in_.ExpectOperator(",");
    }
    in_.ExpectBlockEnd();
    s.body = ParseBody({"endmacro"});
    ExpectEnd("endmacro");
    return true;
  }

  bool ParseFilterBlock(Statement& s) {
    s.kind = Statement::Kind::kFilter;
    s.expression = expressions_.ParseBlockFilters();
    in_.ExpectBlockEnd();
    s.body = ParseBody({"endfilter"});
    ExpectEnd("endfilter");
    return true;
  }

  bool ParseWith(Statement& s) {
    s.kind = Statement::Kind::kWith;
    while (in_.Peek().kind == TokenKind::kName) {
      std::string name = in_.ExpectName();
      in_.ExpectOperator("=");
      s.parameters.emplace_back(std::move(name), expressions_.ParseExpression());
      if (!in_.TakeOperator(",")) break;
    }
    in_.ExpectBlockEnd();
    s.body = ParseBody({"endwith"});
    ExpectEnd("endwith");
    return true;
  }

  TokenCursor in_;
  ExpressionParser expressions_;
};

}  // namespace

Body Parse(std::string_view source) { return Parser(source).Template(); }

}  // namespace quire::jinja
