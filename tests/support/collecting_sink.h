#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/base/error.h"
#include "coordinator/core/request.h"

namespace quire::test {

/// Collects the results of a request, and aborts on events out of order.
class CollectingSink : public RequestSink {
 public:
  struct Choice {
    std::vector<TokenId> tokens;
    std::vector<float> logprobs;
    std::vector<std::vector<std::pair<TokenId, float>>> top;
    std::optional<FinishReason> finished;
    int announced = 0;  // number of tokens that the engine announced as the next ones
  };

  void OnPromptScores(const PromptScores& scores, const std::vector<TokenId>&) override {
    QUIRE_CHECK(static_cast<size_t>(scores.start) == prompt_logprobs.size() && choices.empty(),
                "scores of row {} come after {} others and the tokens of {} choices", scores.start,
                prompt_logprobs.size(), choices.size());
    prompt_logprobs.insert(prompt_logprobs.end(), scores.logprobs.begin(), scores.logprobs.end());
    prompt_ranks.insert(prompt_ranks.end(), scores.ranks.begin(), scores.ranks.end());
    prompt_top.insert(prompt_top.end(), scores.top.begin(), scores.top.end());
  }
  bool OnToken(const TokenEvent& event) override {
    Choice& choice = choices[event.choice];
    QUIRE_CHECK(!choice.finished && error.empty(), "a token after the end of choice {}", event.choice);
    choice.tokens.push_back(event.token);
    choice.logprobs.push_back(event.logprob);
    choice.top.push_back(event.top);
    choice.announced += event.more_follow;
    if (!event.pooled.empty()) pooled.assign(event.pooled.begin(), event.pooled.end());
    return stop_after > 0 && choice.tokens.size() >= stop_after;
  }
  void OnCached(int tokens) override { cached = tokens; }
  void OnDrafts(int index, int accepted, int refused) override {
    QUIRE_CHECK(!choices[index].finished && error.empty(), "guesses are counted after the end of choice {}", index);
    accepted_drafts += accepted;
    refused_drafts += refused;
  }
  void OnFinish(int index, FinishReason reason) override {
    QUIRE_CHECK(!choices[index].finished, "choice {} ends twice", index);
    choices[index].finished = reason;
  }
  void OnError(RequestError, const std::string& message) override { error = message; }

  std::map<int, Choice> choices;
  std::vector<float> prompt_logprobs;  // log-probability of every prompt token except the first
  std::vector<int32_t> prompt_ranks;
  std::vector<std::pair<TokenId, float>> prompt_top;
  std::vector<float> pooled;  // the prompt's pooled vector
  std::string error;
  int cached = 0;                               // tokens of the prompt that came from the cache
  int accepted_drafts = 0, refused_drafts = 0;  // draft tokens in the answers, and other draft tokens
  size_t stop_after = 0;                        // pretends that the text ends with a stop string after so many tokens
};

/// Makes a request of n sequences with the given prompt.
inline std::unique_ptr<Request> MakeRequest(RequestId id, const std::vector<TokenId>& prompt, int max_tokens,
                                            RequestSink& sink, int n = 1, SamplingSpec sampling = {.temperature = 0}) {
  auto request = std::make_unique<Request>();
  request->id = id;
  request->limits.max_tokens = max_tokens;
  request->sampling = sampling;
  request->sink = std::shared_ptr<RequestSink>(&sink, [](RequestSink*) {});  // the test owns the sink
  request->sequences = NewSequences(prompt, n);
  return request;
}

}  // namespace quire::test
