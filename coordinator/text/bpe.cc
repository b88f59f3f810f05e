#include "coordinator/text/bpe.h"

#include <queue>

#include "coordinator/text/encode_bounds.h"
#include "coordinator/text/utf8.h"

namespace quire {

namespace {

uint64_t Key(TokenId left, TokenId right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

constexpr size_t kMergesBetweenLooks = 4096;

struct Symbol {
  TokenId token;
  int previous, next;  // indices of live neighbours, -1 for none
};

struct Candidate {
  int rank;
  int left;                         // index of the pair's left symbol
  TokenId left_token, right_token;  // as seen when the candidate was made; stale candidates differ

  bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : left > other.left; }
};

}  // namespace

void Bpe::AddMerge(TokenId left, TokenId right, TokenId merged, int rank) {
  merges_.try_emplace(Key(left, right), Merge{rank, merged});
}

const Bpe::Merge* Bpe::Find(TokenId left, TokenId right) const {
  const auto it = merges_.find(Key(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

void Bpe::AddBytes(std::string_view bytes, std::vector<TokenId>& out) const {
  for (const char c : bytes) {
    const TokenId token = byte_tokens_[static_cast<unsigned char>(c)];
    if (token >= 0) out.push_back(token);
  }
}

/// Before the first merge.
std::vector<TokenId> Bpe::Beginning(std::string_view piece) const {
  std::vector<TokenId> tokens;
  tokens.reserve(piece.size());
  if (character_tokens_.empty()) {
    AddBytes(piece, tokens);
    return tokens;
  }
  bool after_unknown = false;
  while (!piece.empty()) {
    const Utf8Step step = NextUtf8(piece);
    const auto it = character_tokens_.find(step.character);
    const bool known = it != character_tokens_.end() && step.valid;
    if (known) {
      tokens.push_back(it->second);
    } else if (unknown_ >= 0) {
      if (!after_unknown || !fuses_unknown_) tokens.push_back(unknown_);
    } else {
      AddBytes(piece.substr(0, step.length), tokens);
    }
    after_unknown = !known;
    piece.remove_prefix(step.length);
  }
  return tokens;
}

void Bpe::Encode(std::string_view piece, const std::stop_token& stop, std::vector<TokenId>& out) const {
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  for (const TokenId token : Beginning(piece)) {
    const int index = static_cast<int>(symbols.size());
    symbols.push_back({token, index - 1, index + 1});
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;

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
    right.token = -1;  // gone
    left.next = right.next;
    if (right.next >= 0) symbols[static_cast<size_t>(right.next)].previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
  for (int i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next)
    out.push_back(symbols[static_cast<size_t>(i)].token);
}

}  // namespace quire
