#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "comm/base/types.h"
#include "coordinator/core/request.h"

namespace quire {

/// A place whose last tokens equal the last tokens of a text.
struct CommonPart {
  size_t length = 0;                 // tokens in common; 0: there is no such place
  std::span<const TokenId> follows;  // tokens after the place; not empty where there is a place
};

/// The tokens of answers that ended, for guesses of later answers. Answers are kept apart by client, cache salt and
/// adapter: nobody's guesses depend on answers to others. The memory is bounded.
class EarlierAnswers {
 public:
  static constexpr size_t kMostTokens = size_t{1} << 15;  // tokens of one owner; when full, the older half goes
  static constexpr size_t kMostOwners = 64;  // when full, the owner without an answer for longest is forgotten
  static constexpr size_t kLeastCommon = 3;  // a shorter common part is not found

  /// Remembers an answer to the request, without its prompt.
  void Add(const Request& request, std::span<const TokenId> answer);
  /// The longest part, of `least` to `most` tokens, that an earlier answer has in common with the end of `text`; the
  /// most recent one of equal ones. Only the most recent places are compared. Valid until the next call of Add.
  CommonPart Find(const Request& request, std::span<const TokenId> text, size_t least, size_t most) const;
  void Forget() { owners_.clear(); }
  /// Bytes that the answers and their index take.
  size_t bytes() const;

  /// Members for snapshots. A reader calls MakeIndex afterwards.
  template <class Archive>
  void Transfer(Archive& archive) {
    archive(num_added_, owners_);
  }
  void MakeIndex();

 private:
  struct Owner {
    std::vector<TokenId> tokens;  // kEnd follows every answer
    uint64_t last_added = 0;
    // The index follows from the tokens. Places with the same hash of the tokens before them are linked.
    std::vector<int32_t> newest;   // for each hash the last place with it; -1: none
    std::vector<int32_t> earlier;  // for each place the place before it with the same hash

    void Append(TokenId token);
    void MakeIndex();
    template <class Archive>
    void Transfer(Archive& archive) {
      archive(tokens, last_added);
    }
  };

  std::map<std::string, Owner> owners_;
  uint64_t num_added_ = 0;
};

/// The number of tokens, at most `most`, that the tokens before `end` have in common with the end of `text`.
size_t CommonTokens(std::span<const TokenId> tokens, size_t end, std::span<const TokenId> text, size_t most);

}  // namespace quire
