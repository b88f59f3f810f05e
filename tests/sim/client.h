#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tests/sim/judge.h"

namespace quire::sim {

/// A simulated client. It compares every event with the right answer when the event arrives.
class Client : public RequestSink {
 public:
  explicit Client(const Ask& ask)
      : ask_(ask),
        right_(RightAnswers(ask)),
        right_scores_(RightScores(ask)),
        right_pooled_(RightPooled(ask)),
        got_(right_.size()) {}

  void OnPromptScores(const PromptScores& scores, const std::vector<TokenId>& prompt) override;
  bool OnToken(const TokenEvent& event) override;
  void OnHiddenStop(int index, float) override;
  void OnCached(int tokens) override;
  void OnDrafts(int index, int accepted, int refused) override;
  void OnFinish(int index, FinishReason reason) override;
  void OnError(RequestError error, const std::string& message) override;
  bool Abandoned() const override { return cancelled; }

  /// True after a complete answer or an error.
  bool answered() const { return ended_.has_value() || finished_ == got_.size(); }
  /// True when the client waits for no further event.
  bool over() const { return cancelled || answered(); }
  /// True when this choice has ended. A beam search returns only some of its beams; the others end with the request.
  bool finished(int index) const {
    const auto at = static_cast<size_t>(index);
    return over() || (at < got_.size() && got_[at].finished);
  }
  const std::optional<Ending>& ended() const { return ended_; }
  /// Returns the number of choices that ended for this reason.
  int num_finished(FinishReason reason) const { return reason == FinishReason::kStop ? stopped_ : complete_; }
  /// Returns the number of tokens that the choice still needs, with the stop token that the client does not see.
  int NumDue(int choice) const;
  int cached_tokens() const { return cached_tokens_; }
  int num_scored() const { return num_scored_; }
  int num_pooled() const { return num_pooled_; }
  const Ask& ask() const { return ask_; }

  bool cancelled = false;
  std::optional<Ending> due;  // the error that may end the request now
  /// For each choice, the next counts of draft tokens that the client must get: how many draft tokens are in the
  /// answer, and how many are not.
  std::map<int, std::pair<int, int>> due_drafts;

 private:
  struct Choice {
    int tokens = 0;
    bool finished = false;
  };
  Choice& At(int index);

  Ask ask_;
  std::vector<Answer> right_;
  std::vector<PromptScore> right_scores_;
  std::vector<float> right_pooled_;
  std::vector<Choice> got_;
  size_t finished_ = 0;
  int cached_tokens_ = 0, stopped_ = 0, complete_ = 0;
  int num_pooled_ = 0;  // choices that delivered the prompt's pooled vector
  int num_scored_ = 0;  // scored prompt tokens; the first token is never scored
  std::optional<Ending> ended_;
};

}  // namespace quire::sim
