#include "coordinator/text/jinja/token_cursor.h"

#include <algorithm>

#include "comm/base/error.h"

namespace quire::jinja {

namespace {
constexpr int kMaxDepth = 100;  // nesting of blocks and brackets, over which the parsers recurse
}  // namespace

const Token& TokenCursor::Peek(size_t ahead) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }

Token TokenCursor::Next() { return tokens_[at_ < tokens_.size() - 1 ? at_++ : at_]; }

void TokenCursor::Refuse(const std::string& reason) const { Fail("template:{}: {}", Peek().line, reason); }

void TokenCursor::ExpectOperator(const char* text) {
  if (!TakeOperator(text)) Refuse(fmt::format("expected '{}'", text));
}

std::string TokenCursor::ExpectName() {
  if (Peek().kind != TokenKind::kName) Refuse("expected a name");
  return Next().text;
}

void TokenCursor::ExpectBlockEnd() {
  if (Next().kind != TokenKind::kBlockEnd) Refuse("expected the end of the tag");
}

void TokenCursor::Enter() {
  if (++depth_ > kMaxDepth) Refuse("nested too deep");
}

}  // namespace quire::jinja
