#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/text/tokenizer/tokenizer.h"

namespace quire {

/// Converts tokens to text while they arrive. Emits only complete UTF-8 characters: an incomplete character waits for
/// the bytes that it lacks. Invalid bytes become U+FFFD.
class Detokenizer {
 public:
  /// shown: control tokens that appear in the text even if other control tokens are skipped; null: none.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens,
              std::shared_ptr<const std::vector<TokenId>> shown = nullptr)
      : tokenizer_(tokenizer), skip_special_(skip_special_tokens), shown_(std::move(shown)) {}

  /// Returns the text that is complete with this token; may be empty.
  std::string Push(TokenId token);
  /// Returns the remaining text at the end of the answer. An incomplete character becomes U+FFFD.
  std::string Finish();

 private:
  std::string Drain(bool at_end);
  bool IsShown(TokenId token) const;

  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::shared_ptr<const std::vector<TokenId>> shown_;
  std::string pending_;  // bytes not emitted yet
};

/// Removes the leading spaces that the tokenizer put before a text. `first_token`: the text of the first shown token,
/// which contains these spaces.
void DropFront(const Tokenizer& tokenizer, std::string_view first_token, std::string& text);

/// Returns the text of all tokens (without control tokens if skip_special_tokens), without the leading spaces that the
/// tokenizer put before the text.
std::string Decode(const Tokenizer& tokenizer, const std::vector<TokenId>& tokens, bool skip_special_tokens);

}  // namespace quire
