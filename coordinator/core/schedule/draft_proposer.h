#pragma once

#include <vector>

#include "comm/base/types.h"
#include "coordinator/core/request.h"

namespace quire {

/// Speculative decoding: guesses of the next tokens are computed in the same step as the last known token. Answers do
/// not depend on these options.
struct DraftOptions {
  int num_tokens = 0;  // drafts of one sequence in a step, at most; 0: no speculation
  int min_match = 2;   // tokens that an earlier place must have in common with the end of the sequence, at least
  int max_match = 8;   // further common tokens make no better match
  int max_batch = 8;   // no drafts in a step that computes more sequences than this
};

/// Guesses what a sequence will say next.
class DraftProposer {
 public:
  virtual ~DraftProposer() = default;

  /// Sets `guess` to at most `most` tokens (most >= 1) that may follow the sequence; empty: no guess. The result
  /// depends on the arguments alone, so that a replay plans the same steps. A wrong guess costs time and changes no
  /// answer.
  virtual void Propose(const Request& request, const Sequence& sequence, int most, std::vector<TokenId>& guess) = 0;
};

/// Finds the most recent place in the sequence that has the longest common part with the end of the sequence, and
/// guesses that the tokens after this place come again.
class RepeatProposer final : public DraftProposer {
 public:
  explicit RepeatProposer(const DraftOptions& options) : options_(options) {}
  void Propose(const Request& request, const Sequence& sequence, int most, std::vector<TokenId>& guess) override;

 private:
  DraftOptions options_;
};

}  // namespace quire
