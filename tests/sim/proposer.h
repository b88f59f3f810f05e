#pragma once

#include "coordinator/core/schedule/draft_proposer.h"

namespace quire::sim {

/// Proposes the tokens that the simulated model will sample, some of them altered. The draft depends only on the seed
/// and on the sequence.
class Proposer final : public DraftProposer {
 public:
  /// `percent_right`: the probability, in percent, that a draft is right if the drafts before it are right.
  Proposer(uint64_t seed, int percent_right) : seed_(seed), percent_right_(percent_right) {}
  DraftSource Propose(const Request& request, const Sequence& sequence, int most, std::vector<TokenId>& guess) override;

  /// Returns a draft of `count` tokens that follow `tokens`. `key` chooses which of these tokens are made wrong.
  std::vector<TokenId> Guess(const SamplingSpec& sampling, int adapter, const std::vector<TokenId>& tokens, int count,
                             uint64_t key) const;

 private:
  uint64_t seed_;
  int percent_right_;
};

}  // namespace quire::sim
