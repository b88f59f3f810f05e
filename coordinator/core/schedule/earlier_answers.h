#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "comm/base/types.h"
#include "coordinator/core/request.h"

namespace quire {

/// A position in a list of tokens whose preceding tokens equal the last tokens of a given text.
struct CommonPart {
  size_t length = 0;                 // number of equal tokens; 0: no such position
  std::span<const TokenId> follows;  // tokens after the position; not empty if there is one
};

/// Stores the tokens of ended answers, as drafts for later answers. Each answer has an owner: a combination of client,
/// cache salt and adapter. Drafts come only from answers of the same owner, so they never depend on answers to other
/// clients. The memory is bounded.
class EarlierAnswers {
 public:
  static constexpr size_t kMostTokens = size_t{1} << 15;  // most tokens of an owner; beyond, the older half is dropped
  /// The most owners. When there are more, the client with the most owners loses the owner whose last answer is oldest.
  static constexpr size_t kMostOwners = 64;
  static constexpr size_t kLeastCommon = 3;  // a shorter common part is not found

  /// Remembers the last tokens of an answer to the request, at most kMostTokens / 2 - 1. Ignores answers of at most
  /// kLeastCommon tokens.
  void Add(const Request& request, std::span<const TokenId> answer);
  /// Returns the longest part, of `least` to `most` tokens, that an earlier answer of the request's owner has in common
  /// with the end of `text`. Returns the most recent of equally long parts; length 0: there is none. Only the most
  /// recent positions are compared. The result is valid until the next call of Add or Forget.
  CommonPart Find(const Request& request, std::span<const TokenId> text, size_t least, size_t most) const;
  void Forget() { owners_.clear(); }
  /// Returns the bytes that the answers and their index take.
  size_t bytes() const;

  /// Saves or loads the answers for a snapshot. Call MakeIndex after loading.
  template <class Archive>
  void Transfer(Archive& archive) {
    archive(num_added_, owners_);
  }
  void MakeIndex();

 private:
  struct Owner {
    std::string client;
    std::vector<TokenId> tokens;  // kEnd follows every answer
    uint64_t last_added = 0;
    // The index, computed from the tokens, links positions that have the same hash of the preceding tokens.
    std::vector<int32_t> newest;   // for each hash, the last position with it; -1: none
    std::vector<int32_t> earlier;  // for each position, the previous one with the same hash

    void Append(TokenId token);
    void MakeIndex();
    template <class Archive>
    void Transfer(Archive& archive) {
      archive(client, tokens, last_added);
    }
  };

  void ForgetOne();

  std::map<std::string, Owner> owners_;
  uint64_t num_added_ = 0;
};

/// Returns the number of tokens, at most `most`, that the tokens before `end` have in common with the end of `text`.
size_t CommonTokens(std::span<const TokenId> tokens, size_t end, std::span<const TokenId> text, size_t most);

}  // namespace quire
