#include "tests/sim/client.h"

#include <algorithm>
#include <span>

#include "comm/base/error.h"
#include "tests/sim/simulator.h"

namespace quire::sim {

Client::Choice& Client::At(int index) {
  if (index < 0 || index >= static_cast<int>(got_.size())) throw Failure{fmt::format("no choice {}", index)};
  if (finished(index)) throw Failure{fmt::format("choice {} hears more after its end", index)};
  return got_[static_cast<size_t>(index)];
}

int Client::NumDue(int choice) const {
  if (ask_.beams) return 1;
  const Answer& right = right_[static_cast<size_t>(choice)];
  const auto count = static_cast<int>(right.tokens.size());
  const bool by_sink = ask_.sink_stops_after > 0 && count == ask_.sink_stops_after;
  const bool by_token = right.reason == FinishReason::kStop && !by_sink;
  return count + by_token - got_[static_cast<size_t>(choice)].tokens;
}

void Client::OnPromptScores(const PromptScores& scores, const std::vector<TokenId>& prompt) {
  const bool begun = std::ranges::any_of(got_, [](const Choice& choice) { return choice.tokens > 0; });
  if (begun || over() || scores.start != num_scored_) throw Failure{"scores of a prompt come out of order"};
  if (!std::ranges::equal(std::span(prompt).first(ask_.prompt.size()), ask_.prompt))
    throw Failure{"scores come with another prompt"};
  for (size_t i = 0; i < scores.count(); ++i, ++num_scored_) {
    const auto at = static_cast<size_t>(num_scored_), top = static_cast<size_t>(scores.num_top);
    if (at == right_scores_.size()) throw Failure{"scores come for more than the prompt"};
    const auto begin = scores.top.begin() + static_cast<ptrdiff_t>(i * top);
    const PromptScore got{scores.logprobs[i], scores.ranks[i], {begin, begin + static_cast<ptrdiff_t>(top)}};
    if (!(got == right_scores_[at])) throw Failure{fmt::format("the score of prompt token {} is wrong", at + 1)};
  }
}

bool Client::OnToken(const TokenEvent& event) {
  if (static_cast<size_t>(num_scored_) != right_scores_.size())
    throw Failure{fmt::format("{} tokens of the prompt are scored when the first is drawn", num_scored_)};
  Choice& choice = At(event.choice);
  const Answer& right = right_[static_cast<size_t>(event.choice)];
  if (choice.tokens == static_cast<int>(right.tokens.size()) ||
      event.token != right.tokens[static_cast<size_t>(choice.tokens)]) {
    throw Failure{fmt::format("choice {}: token {} is wrong", event.choice, choice.tokens)};
  }
  // A choice whose prompt is computed again delivers its pooled vector again.
  if ((choice.tokens == 0 || !event.pooled.empty()) && event.pooled != right_pooled_)
    throw Failure{fmt::format("choice {}: what is pooled of its prompt is wrong", event.choice)};
  num_pooled_ += !event.pooled.empty();
  ++choice.tokens;
  return ask_.sink_stops_after > 0 && choice.tokens >= ask_.sink_stops_after;
}

void Client::OnHiddenStop(int index, float) {
  if (At(index).tokens != static_cast<int>(right_[static_cast<size_t>(index)].tokens.size()))
    throw Failure{fmt::format("choice {} is stopped by token {}", index, At(index).tokens)};
}

void Client::OnCached(int tokens) {
  const bool possible = tokens > 0 && tokens < static_cast<int>(ask_.prompt.size());
  if (At(0).tokens > 0 || cached_tokens_ != 0 || !possible)
    throw Failure{fmt::format("{} prompt tokens are said to come from the cache", tokens)};
  cached_tokens_ = tokens;
}

void Client::OnDrafts(int index, int accepted, int refused) {
  At(index);
  const auto told = due_drafts.find(index);
  if (told == due_drafts.end() || told->second != std::pair(accepted, refused))
    throw Failure{
        fmt::format("choice {}: {} guessed tokens are said to be in the answer, and {} not", index, accepted, refused)};
  due_drafts.erase(told);
}

void Client::OnFinish(int index, FinishReason reason) {
  Choice& choice = At(index);
  const Answer& right = right_[static_cast<size_t>(index)];
  if (choice.tokens != static_cast<int>(right.tokens.size()) || reason != right.reason) {
    throw Failure{fmt::format("choice {} ends after {} of {} tokens, or for another reason", index, choice.tokens,
                              right.tokens.size())};
  }
  choice.finished = true;
  ++finished_;
  ++(reason == FinishReason::kStop ? stopped_ : complete_);
}

void Client::OnError(RequestError error, const std::string& message) {
  if (over()) throw Failure{"an error after the end"};
  if (!due || due->error != error || message.find(due->words) == std::string::npos)
    throw Failure{fmt::format("a request ends with error {} \"{}\" where {} is due", static_cast<int>(error), message,
                              due ? '"' + due->words + '"' : "nothing")};
  ended_ = due;
}

}  // namespace quire::sim
