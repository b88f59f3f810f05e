#pragma once

#include <span>
#include <utility>
#include <vector>

#include "comm/base/types.h"

namespace quire {

enum class EarlyStopping {
  kNo,     // stop when the best running beam, at its present length, no longer beats the worst finished one
  kYes,    // stop when `width` beams have finished
  kNever,  // like kNo, but with the length that suits the running beam best
};

struct BeamOptions {
  int width = 1;
  int num_returned = 1;  // of the finished, the best
  float length_penalty = 1;
  EarlyStopping early_stopping = EarlyStopping::kNo;
};

/// A beam's generated tokens. score: the sum of their log-probabilities; of a finished one, divided by
/// length ^ length_penalty.
struct Beam {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  float score = 0;
  bool stopped = false;  // ended by a stop token, which is its last one; otherwise by length

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(tokens, logprobs, score, stopped);
  }
};

/// The choice of beams, step by step, as HF transformers' generate(num_beams=...) makes it (v5, _beam_search): the best
/// `width` continuations that do not end go on; of those that end, the ones among the best `width` of all become
/// finished beams, of which the best `width` are kept. Pure: knows no blocks and no slots.
class BeamSearch {
 public:
  BeamSearch(const BeamOptions& options, std::vector<TokenId> stop_token_ids, int max_tokens);

  /// Continuations of each beam that Advance needs: its best ones, best first. Fewer when the vocabulary is smaller.
  int num_candidates() const { return options_.width + static_cast<int>(stop_token_ids_.size()); }
  using Candidates = std::vector<std::pair<TokenId, float>>;  // token, log-probability

  /// Running beam i now continues running beam `parent` of before with `token`. A beam that goes on at all goes on in
  /// its own place (i == parent) once.
  struct Step {
    int parent;
    TokenId token;
  };

  /// `candidates[i]` belong to running beam i. Returns the beams that go on; none when the search is over.
  std::vector<Step> Advance(std::span<const Candidates* const> candidates);

  /// After the end: the best finished beams, best first.
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
  std::vector<Beam> finished_;  // best first, at most width
};

}  // namespace quire
