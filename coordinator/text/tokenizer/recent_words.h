#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "comm/base/types.h"

namespace quire {

/// Remembers which words of a text are encoded already, and where their tokens are in the output, because most words
/// occur again.
class RecentWords {
 public:
  /// Allocates the table for a text of num_words words. A text of fewer than kShortText words gets no table.
  explicit RecentWords(size_t num_words) : words_(num_words < kShortText ? 0 : kKept) {}

  /// Appends the tokens of a remembered word. Returns false if the word is not remembered.
  bool Repeat(std::string_view word, std::vector<TokenId>& tokens) const {
    if (!IsKept(word)) return false;
    const Word& kept = words_[PlaceOf(word)];
    if (kept.text != word) return false;
    for (size_t i = kept.begin; i < kept.end; ++i) tokens.push_back(tokens[i]);
    return true;
  }
  /// Remembers that tokens[begin, end) are the word's tokens, unless the word is longer than kLongWord bytes. The
  /// word's text must not move.
  void Note(std::string_view word, size_t begin, size_t end) {
    if (IsKept(word)) words_[PlaceOf(word)] = {word, begin, end};
  }

 private:
  static constexpr size_t kShortText = 64, kKept = 4096;
  static constexpr size_t kLongWord = 64;  // bytes; longer words seldom occur again

  struct Word {
    std::string_view text;
    size_t begin = 0, end = 0;
  };
  bool IsKept(std::string_view word) const { return !words_.empty() && !word.empty() && word.size() <= kLongWord; }
  static size_t PlaceOf(std::string_view word) { return std::hash<std::string_view>()(word) % kKept; }

  std::vector<Word> words_;
};

}  // namespace quire
