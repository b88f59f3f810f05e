#include "coordinator/text/tokenizer/word_piece.h"

#include "comm/base/error.h"
#include "coordinator/text/utf8.h"

namespace quire {

namespace {

constexpr size_t kMostPieceBytes = 1024;  // longest token; each position may read this many bytes ahead
constexpr size_t kMostMarkBytes = 16;

/// Returns a trie of texts of tokens. With `mark`, the trie has the tokens that begin with the mark, without the mark:
/// these tokens continue words. Without `mark`, the trie has all tokens, because any may begin a word.
ByteTrie PiecesOf(const std::vector<std::string>& tokens, std::string_view mark) {
  std::vector<ByteTrie::Entry> entries;
  for (size_t id = 0; id < tokens.size(); ++id) {
    const std::string_view text = tokens[id];
    if (text.size() > kMostPieceBytes)
      Fail("tokenizer: token {} has {} bytes, at most {} are allowed", id, text.size(), kMostPieceBytes);
    if (text.size() <= mark.size() || !text.starts_with(mark)) continue;
    entries.push_back({text.substr(mark.size()), static_cast<int32_t>(id)});
  }
  return ByteTrie(std::move(entries));
}

}  // namespace

WordPiece::WordPiece(const WordPieceModel& model, const std::vector<std::string>& tokens)
    : beginnings_(PiecesOf(tokens, "")),
      continuations_(PiecesOf(tokens, model.mark)),
      unknown_(model.unknown),
      most_characters_(model.most_characters) {
  if (unknown_ < 0 || static_cast<size_t>(unknown_) >= tokens.size())
    Fail("tokenizer: the unknown token {} is not in the vocabulary of {}", unknown_, tokens.size());
  if (model.mark.empty() || model.mark.size() > kMostMarkBytes)
    Fail("tokenizer: a mark of continuations of {} bytes is not supported", model.mark.size());
}

void WordPiece::Encode(std::string_view word, std::vector<TokenId>& out) const {
  const size_t before = out.size();
  size_t characters = 0;
  for (size_t at = 0; at < word.size() && characters <= most_characters_; ++characters)
    at += NextUtf8(word.substr(at)).length;
  bool is_spelt = characters <= most_characters_;
  for (size_t begin = 0; begin < word.size() && is_spelt;) {
    const ByteTrie& pieces = begin == 0 ? beginnings_ : continuations_;
    size_t longest = 0;
    TokenId token = unknown_;
    uint32_t node = ByteTrie::kRoot;
    for (size_t end = begin; end < word.size(); ++end) {
      node = pieces.Step(node, word[end]);
      if (node == ByteTrie::kNone) break;
      if (const int32_t found = pieces.ValueAt(node); found >= 0) longest = end + 1 - begin, token = found;
    }
    is_spelt = longest > 0;
    begin += longest;
    if (is_spelt) out.push_back(token);
  }
  if (is_spelt) return;
  out.resize(before);
  out.push_back(unknown_);
}

std::string TextOfPiece(const WordPieceModel& model, std::string_view token) {
  if (token.starts_with(model.mark)) return std::string(token.substr(model.mark.size()));
  return std::string(" ").append(token);
}

}  // namespace quire
