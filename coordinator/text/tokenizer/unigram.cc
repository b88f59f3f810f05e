#include "coordinator/text/tokenizer/unigram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "comm/base/error.h"
#include "coordinator/text/tokenizer/encode_bounds.h"
#include "coordinator/text/tokenizer/metaspace.h"
#include "coordinator/text/utf8.h"

namespace quire {

namespace {

constexpr size_t kMaxPieceBytes = 256;  // longest piece; each position may read this many bytes ahead
constexpr size_t kPlacesBetweenLooks = 4096;

ByteTrie TrieOf(const UnigramModel& model, const std::vector<std::string>& tokens) {
  std::vector<ByteTrie::Entry> entries;
  for (const UnigramModel::Piece& piece : model.pieces) {
    if (piece.token < 0 || static_cast<size_t>(piece.token) >= tokens.size() || !std::isfinite(piece.score))
      Fail("tokenizer: piece {} of {} has the score {}", piece.token, tokens.size(), piece.score);
    const std::string& text = tokens[static_cast<size_t>(piece.token)];
    if (text.size() > kMaxPieceBytes)
      Fail("tokenizer: piece {} has {} bytes, at most {} are allowed", piece.token, text.size(), kMaxPieceBytes);
    if (!IsValidUtf8(text)) Fail("tokenizer: piece {} is not valid UTF-8", piece.token);
    entries.push_back({text, static_cast<int32_t>(entries.size())});
  }
  return ByteTrie(std::move(entries));
}

}  // namespace

Unigram::Unigram(const UnigramModel& model, const std::vector<std::string>& tokens)
    : trie_(TrieOf(model, tokens)),
      pieces_(model.pieces),
      bytes_(256, -1),
      unknown_(model.unknown),
      unknown_score_(model.unknown_score),
      single_precision_(model.single_precision) {
  if (unknown_ < 0 || static_cast<size_t>(unknown_) >= tokens.size())
    Fail("tokenizer: token {}, which stands for what is not known, is not in the vocabulary of {}", unknown_,
         tokens.size());
  for (size_t id = 0; model.byte_fallback && id < tokens.size(); ++id) {
    if (const auto byte = ByteOfToken(tokens[id])) bytes_[*byte] = static_cast<TokenId>(id);
  }
}

bool Unigram::knows_all_bytes() const {
  return std::ranges::all_of(bytes_, [](TokenId token) { return token >= 0; });
}

double Unigram::Sum(double before, double score) const {
  return single_precision_ ? static_cast<float>(before + score) : before + score;
}

std::vector<Unigram::Last> Unigram::BestWays(std::string_view text, const std::stop_token& stop) const {
  std::vector<Last> last(text.size() + 1);  // indexed by end position
  // The scores of the best segmentations by end position, in a ring buffer that is longer than the longest piece.
  std::vector<double> scores(std::bit_ceil(std::min(text.size(), kMaxPieceBytes) + 1));
  const size_t mask = scores.size() - 1;
  // Keeps the first segmentation that ends at `end`, unless a later one is likelier.
  const auto offer = [&](double score, TokenId token, size_t begin, size_t end) {
    if (last[end].bytes > 0 && score <= scores[end & mask]) return;
    scores[end & mask] = score;
    last[end] = {token, static_cast<uint32_t>(end - begin)};
  };
  size_t places = 0;
  for (size_t begin = 0; begin < text.size();) {
    if (++places % kPlacesBetweenLooks == 0) CheckStop(stop);
    const size_t character = NextUtf8(text.substr(begin)).length;
    const double before = scores[begin & mask];
    bool has_character = false;
    uint32_t node = ByteTrie::kRoot;
    for (size_t end = begin + 1; end <= text.size(); ++end) {
      node = trie_.Step(node, text[end - 1]);
      if (node == ByteTrie::kNone) break;
      const int32_t found = trie_.ValueAt(node);
      if (found < 0) continue;
      const UnigramModel::Piece& piece = pieces_[static_cast<size_t>(found)];
      offer(Sum(before, piece.score), piece.token, begin, end);
      has_character = has_character || end - begin == character;
    }
    if (!has_character) offer(Sum(before, unknown_score_), unknown_, begin, begin + character);
    begin += character;
  }
  return last;
}

void Unigram::AddUnknown(std::string_view run, std::vector<TokenId>& out) const {
  if (const int32_t found = trie_.Find(run); found >= 0) {
    out.push_back(pieces_[static_cast<size_t>(found)].token);
    return;
  }
  const auto token_of = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)]; };
  if (!std::ranges::all_of(run, [&](char byte) { return token_of(byte) >= 0; })) {
    out.push_back(unknown_);
    return;
  }
  for (const char byte : run) out.push_back(token_of(byte));
}

void Unigram::Encode(std::string_view text, const std::stop_token& stop, std::vector<TokenId>& out) const {
  const std::vector<Last> last = BestWays(text, stop);
  std::vector<uint32_t> ends;  // end positions of the pieces, last piece first
  for (size_t end = text.size(); end > 0; end -= last[end].bytes) ends.push_back(static_cast<uint32_t>(end));
  size_t begin = 0;
  for (size_t i = ends.size(); i-- > 0;) {
    const auto is_unknown = [&](size_t piece) { return last[ends[piece]].token == unknown_; };
    if (!is_unknown(i)) {
      out.push_back(last[ends[i]].token);
    } else {
      while (i > 0 && is_unknown(i - 1)) --i;
      AddUnknown(text.substr(begin, ends[i] - begin), out);
    }
    begin = ends[i];
  }
}

}  // namespace quire
