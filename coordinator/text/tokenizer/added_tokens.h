#pragma once

#include <stop_token>
#include <string_view>
#include <vector>

#include "coordinator/text/marked_text.h"
#include "coordinator/text/tokenizer/text_finder.h"
#include "coordinator/text/tokenizer/tokenizer_data.h"

namespace quire {

/// Finds added tokens by their text.
class AddedTokenFinder {
 public:
  /// A token and the text by which it is found. `token` must outlive the finder at the same address; only the
  /// constructor reads `text`.
  struct Entry {
    std::string_view text;
    const AddedToken* token;
  };
  explicit AddedTokenFinder(const std::vector<Entry>& entries = {});

  struct Found {
    size_t begin, length;  // begin and length in bytes of the text
    const AddedToken* token;
  };
  /// Returns the longest added token at every position where added tokens begin; the last position comes first. Control
  /// tokens are found only in bytes that `marks` trusts (null: all bytes). If several tokens have the same text, the
  /// first of them is found. The time is linear in the text, whatever the number and length of the tokens. Throws
  /// Stopped when `stop` asks for it.
  std::vector<Found> FindAll(std::string_view text, const MarkedText* marks, const std::stop_token& stop) const;

 private:
  struct Known {
    size_t length;
    const AddedToken* token;
  };
  const Known* Longer(int32_t plain, int32_t control) const;

  std::vector<Known> known_;
  std::vector<size_t> plain_, control_;  // indices into known_, by index of the finders' texts
  TextFinder plain_finder_, control_finder_;
};

/// A part of a text: an added token with the adjacent whitespace that belongs to it (left_strip, right_strip), or the
/// text between two added tokens.
struct TextPart {
  std::string_view text;
  const AddedToken* token;  // null: plain text
};

/// Cuts a text at its added tokens; at control tokens only in bytes that `marks` trusts (null: all bytes). If a token
/// has left_strip, right_strip or single_word, the text must be valid UTF-8. Throws Stopped when `stop` asks for it.
std::vector<TextPart> CutAtTokens(std::string_view text, const AddedTokenFinder& tokens, const MarkedText* marks,
                                  const std::stop_token& stop);

}  // namespace quire
