#include "coordinator/text/tokenizer/detokenizer.h"

#include <algorithm>

#include "coordinator/text/utf8.h"

namespace quire {

std::string Detokenizer::Drain(bool at_end) {
  std::string text;
  size_t at = 0;
  while (at < pending_.size()) {
    const Utf8Step step = NextUtf8(std::string_view(pending_).substr(at));
    if (step.incomplete && !at_end) break;
    if (step.valid) {
      text.append(pending_, at, step.length);
    } else {
      text += "\xef\xbf\xbd";
    }
    at += step.length;
  }
  pending_.erase(0, at);
  return text;
}

bool Detokenizer::IsShown(TokenId token) const {
  return shown_ != nullptr && std::ranges::find(*shown_, token) != shown_->end();
}

std::string Detokenizer::Push(TokenId token) {
  if (skip_special_ && tokenizer_.IsSpecial(token) && !IsShown(token)) return "";
  pending_ += tokenizer_.Bytes(token);
  return Drain(false);
}

std::string Detokenizer::Finish() { return Drain(true); }

void DropFront(const Tokenizer& tokenizer, std::string_view first_token, std::string& text) {
  if (tokenizer.data().word_piece && text.starts_with(' ')) text.erase(0, 1);
  const std::optional<Metaspace>& metaspace = tokenizer.data().metaspace;
  if (!metaspace || metaspace->front == Metaspace::Front::kShown) return;
  ptrdiff_t spaces = text.starts_with(' ') ? 1 : 0;
  if (metaspace->front == Metaspace::Front::kMarksDropped) spaces = std::ranges::count(first_token, ' ');
  for (size_t at; spaces > 0 && (at = text.find(' ')) != std::string::npos; --spaces) text.erase(at, 1);
}

std::string Decode(const Tokenizer& tokenizer, const std::vector<TokenId>& tokens, bool skip_special_tokens) {
  Detokenizer detokenizer(tokenizer, skip_special_tokens);
  const auto first =
      std::ranges::find_if(tokens, [&](TokenId token) { return !skip_special_tokens || !tokenizer.IsSpecial(token); });
  std::string text;
  for (const TokenId token : tokens) text += detokenizer.Push(token);
  text += detokenizer.Finish();
  if (first != tokens.end()) DropFront(tokenizer, tokenizer.Bytes(*first), text);
  return text;
}

}  // namespace quire
