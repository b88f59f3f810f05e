#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/text/tokenizer.h"

namespace quire {

/// Turns tokens into text as they come. Text is handed out in whole UTF-8 characters only: the beginning of one waits
/// for its rest. Bytes that are no character become U+FFFD.
class Detokenizer {
 public:
  /// shown: control tokens that are text even where others are skipped; null: none.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special_tokens,
              std::shared_ptr<const std::vector<TokenId>> shown = nullptr)
      : tokenizer_(tokenizer), skip_special_(skip_special_tokens), shown_(std::move(shown)) {}

  /// The text that the token completes; may be empty.
  std::string Push(TokenId token);
  /// What is left at the end: an unfinished character as U+FFFD.
  std::string Finish();

 private:
  std::string Drain(bool at_end);
  bool IsShown(TokenId token) const;

  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::shared_ptr<const std::vector<TokenId>> shown_;
  std::string pending_;  // bytes that are not handed out yet
};

/// Leaves out the spaces of a text from its beginning that were put in front of it, and which `first_token`, the first
/// one that is shown, has.
void DropFront(const Tokenizer& tokenizer, std::string_view first_token, std::string& text);

/// All tokens at once, from the beginning of a text: a space that was put in front of it is left out.
std::string Decode(const Tokenizer& tokenizer, const std::vector<TokenId>& tokens, bool skip_special_tokens);

}  // namespace quire
