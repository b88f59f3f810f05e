#include "coordinator/text/tokenizer/bpe.h"

#include <algorithm>
#include <array>
#include <climits>
#include <queue>

#include "coordinator/text/tokenizer/encode_bounds.h"
#include "coordinator/text/utf8.h"

namespace quire {

namespace {

uint64_t Key(TokenId left, TokenId right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

constexpr char32_t kPlane = 0x10000;
constexpr size_t kFew = 64;  // up to so many tokens are merged without a queue

constexpr size_t kMergesBetweenLooks = 4096;

struct Symbol {
  TokenId token;
  int previous, next;  // indices of the neighbours; -1: none
};

struct Candidate {
  int rank;
  int left;                         // index of the pair's left symbol
  TokenId left_token, right_token;  // tokens at creation; the candidate is stale once they differ

  bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
};

}  // namespace

void Bpe::SetCharacterToken(char32_t character, TokenId token) {
  if (character >= kPlane) {
    rare_characters_[character] = token;
    return;
  }
  common_characters_.resize(kPlane, -1);
  common_characters_[character] = token;
}

TokenId Bpe::TokenOf(char32_t character) const {
  if (character < common_characters_.size()) return common_characters_[character];
  const auto found = rare_characters_.find(character);
  return found == rare_characters_.end() ? -1 : found->second;
}

/// Returns the index of the key in the table, or of the empty entry where the key belongs.
size_t Bpe::PlaceOf(uint64_t key) const {
  constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;  // 2^64 divided by the golden ratio spreads neighbouring keys
  const size_t mask = merges_.size() - 1;
  uint64_t mixed = (key ^ secret_) * kSpread;
  mixed = (mixed ^ mixed >> 32) * kSpread;
  size_t place = mixed >> 32 & mask;
  while (merges_[place].key != key && merges_[place].key != kNoKey) place = (place + 1) & mask;
  return place;
}

void Bpe::AddMerge(TokenId left, TokenId right, TokenId merged, int rank) {
  if (2 * (num_merges_ + 1) > merges_.size()) {
    std::vector<Merge> before(2 * merges_.size());
    before.swap(merges_);
    for (const Merge& merge : before) {
      if (merge.key != kNoKey) merges_[PlaceOf(merge.key)] = merge;
    }
  }
  Merge& place = merges_[PlaceOf(Key(left, right))];
  if (place.key != kNoKey) return;
  place = {Key(left, right), rank, merged};
  ++num_merges_;
}

const Bpe::Merge* Bpe::Find(TokenId left, TokenId right) const {
  const Merge& place = merges_[PlaceOf(Key(left, right))];
  return place.key == kNoKey ? nullptr : &place;
}

void Bpe::AddBytes(std::string_view bytes, std::vector<TokenId>& out) const {
  for (const char c : bytes) {
    const TokenId token = byte_tokens_[static_cast<unsigned char>(c)];
    if (token >= 0) out.push_back(token);
  }
}

/// Appends a piece's initial tokens, before any merge.
void Bpe::AddBeginning(std::string_view piece, std::vector<TokenId>& out) const {
  if (common_characters_.empty() && rare_characters_.empty() && unknown_ < 0) return AddBytes(piece, out);
  bool after_unknown = false;
  while (!piece.empty()) {
    const Utf8Step step = NextUtf8(piece);
    const TokenId token = step.valid ? TokenOf(step.character) : -1;
    if (token >= 0) {
      out.push_back(token);
    } else if (unknown_ < 0) {
      AddBytes(piece.substr(0, step.length), out);
    } else if (!after_unknown || !fuses_unknown_) {
      out.push_back(unknown_);
    }
    after_unknown = token < 0;
    piece.remove_prefix(step.length);
  }
}

void Bpe::Encode(std::string_view piece, const std::stop_token& stop, std::vector<TokenId>& out) const {
  const size_t begin = out.size();
  AddBeginning(piece, out);
  out.size() - begin <= kFew ? MergeFew(begin, out) : MergeMany(begin, stop, out);
}

/// Merges the tokens of `out` from index `begin` on, in place. Before each merge, searches all pairs for the lowest
/// rank.
void Bpe::MergeFew(size_t begin, std::vector<TokenId>& out) const {
  size_t count = out.size() - begin;
  if (count < 2) return;
  TokenId* tokens = &out[begin];
  std::array<int, kFew> ranks;  // rank of merging each token with its successor; INT_MAX: no merge
  std::array<TokenId, kFew> merged;
  const auto look = [&](size_t left) {
    const Merge* merge = Find(tokens[left], tokens[left + 1]);
    ranks[left] = merge != nullptr ? merge->rank : INT_MAX;
    merged[left] = merge != nullptr ? merge->merged : 0;
  };
  for (size_t i = 0; i + 1 < count; ++i) look(i);
  while (count > 1) {
    const auto pairs = ranks.begin() + static_cast<ptrdiff_t>(count - 1);
    const auto best = static_cast<size_t>(std::min_element(ranks.begin(), pairs) - ranks.begin());
    if (ranks[best] == INT_MAX) break;
    tokens[best] = merged[best];
    std::copy(tokens + best + 2, tokens + count, tokens + best + 1);
    std::copy(ranks.begin() + static_cast<ptrdiff_t>(best) + 1, pairs, ranks.begin() + static_cast<ptrdiff_t>(best));
    std::copy(merged.begin() + static_cast<ptrdiff_t>(best) + 1, merged.begin() + static_cast<ptrdiff_t>(count - 1),
              merged.begin() + static_cast<ptrdiff_t>(best));
    --count;
    if (best > 0) look(best - 1);
    if (best + 1 < count) look(best);
  }
  out.resize(begin + count);
}

void Bpe::MergeMany(size_t begin, const std::stop_token& stop, std::vector<TokenId>& out) const {
  std::vector<Symbol> symbols;
  symbols.reserve(out.size() - begin);
  for (size_t i = begin; i < out.size(); ++i) {
    const int index = static_cast<int>(symbols.size());
    symbols.push_back({out[i], index - 1, index + 1});
  }
  symbols.back().next = -1;
  out.resize(begin);

  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](int left) {
    if (left < 0 || symbols[static_cast<size_t>(left)].next < 0) return;
    const TokenId a = symbols[static_cast<size_t>(left)].token;
    const TokenId b = symbols[static_cast<size_t>(symbols[static_cast<size_t>(left)].next)].token;
    if (const Merge* merge = Find(a, b)) queue.push({merge->rank, left, a, b});
  };
  for (int i = 0; i + 1 < static_cast<int>(symbols.size()); ++i) consider(i);
  for (size_t merges = 1; !queue.empty(); ++merges) {
    if (merges % kMergesBetweenLooks == 0) CheckStop(stop);
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[static_cast<size_t>(best.left)];
    if (left.token != best.left_token || left.next < 0) continue;
    Symbol& right = symbols[static_cast<size_t>(left.next)];
    if (right.token != best.right_token) continue;
    left.token = Find(best.left_token, best.right_token)->merged;
    right.token = -1;  // merged away
    left.next = right.next;
    if (right.next >= 0) symbols[static_cast<size_t>(right.next)].previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
  for (int i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next)
    out.push_back(symbols[static_cast<size_t>(i)].token);
}

}  // namespace quire
