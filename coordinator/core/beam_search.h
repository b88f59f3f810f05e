#pragma once

#include <span>
#include <utility>
#include <vector>

#include "comm/base/types.h"

namespace quire {

enum class EarlyStopping {
  kNo,     // stop when the best running beam's score at its present length does not beat the worst finished beam
  kYes,    // stop when `width` beams have finished
  kNever,  // stop when the best running beam's score at its best possible length does not beat the worst finished beam
};

struct BeamOptions {
  int width = 1;
  int num_returned = 1;  // number of finished beams that Result returns
  float length_penalty = 1;
  EarlyStopping early_stopping = EarlyStopping::kNo;
};

/// One beam's generated tokens. `score` is the sum of the tokens' log-probabilities; a finished beam's sum is divided
/// by (number of generated tokens) ^ length_penalty.
struct Beam {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  float score = 0;
  bool stopped = false;  // true: ended by a stop token, its last token; false: ended by length

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(tokens, logprobs, score, stopped);
  }
};

/// Selects beams step by step like HF transformers' generate(num_beams=...) (v5, _beam_search). In each step, a
/// continuation that ends becomes a finished beam if it is among the best `width` continuations. The best `width`
/// continuations that do not end become the running beams. Finished beams beyond the best `width` are dropped. The
/// class holds no KV blocks and no slots at the workers.
class BeamSearch {
 public:
  BeamSearch(const BeamOptions& options, std::vector<TokenId> stop_token_ids, int max_tokens);

  /// Returns the number of continuations of each beam that Advance needs. A small vocabulary may give fewer.
  int num_candidates() const { return options_.width + static_cast<int>(stop_token_ids_.size()); }
  using Candidates = std::vector<std::pair<TokenId, float>>;  // token, log-probability

  /// One entry of Advance's result, for running beam i: the beam now continues the previous beam `parent` with `token`.
  /// One child of each beam that has children has its parent's index (i == parent).
  struct Step {
    int parent;
    TokenId token;
  };

  /// Takes one step. `candidates[i]`: the most probable continuations of running beam i, best first. Returns one Step
  /// for each running beam, or no Step when the search is over.
  std::vector<Step> Advance(std::span<const Candidates* const> candidates);

  /// Returns the num_returned best finished beams, best first. Call it when the search is over.
  std::vector<Beam> Result() const;
  const BeamOptions& options() const { return options_; }

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(running_, finished_);
  }

 private:
  struct Candidate {
    int parent;
    TokenId token;
    float logprob, score;
    bool ends;
  };
  bool Stops(TokenId token) const;
  Beam Extend(const Candidate& candidate) const;
  void Finish(const Candidate& candidate);
  bool IsOver(int length) const;

  BeamOptions options_;
  std::vector<TokenId> stop_token_ids_;
  int max_tokens_;
  std::vector<Beam> running_;
  std::vector<Beam> finished_;  // sorted by score, the highest first; at most `width` beams
};

}  // namespace quire
