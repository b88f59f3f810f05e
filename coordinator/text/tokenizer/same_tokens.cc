#include "coordinator/text/tokenizer/same_tokens.h"

#include <algorithm>

#include "comm/base/error.h"
#include "comm/base/printable.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace quire {

namespace {

std::string Shown(const Tokenizer& tokenizer, TokenId token) {
  const std::string_view bytes = tokenizer.Bytes(token);
  return bytes.empty() ? "nothing" : fmt::format("\"{}\"", WithoutControls(bytes));
}

}  // namespace

void CheckSameTokens(const ModelFiles& draft, const ModelFiles& served) {
  const auto open = [](const ModelFiles& files) { return ReadAsSettings([&] { return TokenizerDataOf(files); }); };
  const Tokenizer drafts(open(draft)), serves(open(served));
  for (TokenId token = 0; token < std::max(drafts.vocab_size(), serves.vocab_size()); ++token) {
    if (drafts.Bytes(token) == serves.Bytes(token)) continue;
    FailSettings(
        "--speculative-config: {} cannot guess for {}: token {} is {} in the draft model and {} in the served model; a "
        "draft model needs the tokenizer of the served model",
        draft.path(), served.path(), token, Shown(drafts, token), Shown(serves, token));
  }
}

}  // namespace quire
