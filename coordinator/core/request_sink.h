#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/blocks/sequence.h"

namespace quire {

/// One generated token, as the engine gives it to a RequestSink.
struct TokenEvent {
  int choice = 0;
  TokenId token = 0;
  float logprob = 0;
  std::vector<std::pair<TokenId, float>> top;
  std::span<const float> pooled = {};  // the prompt's pooled hidden state, with the first token; valid during the call
  bool more_follow = false;            // the next call delivers another token of the same choice
};

/// The reason why a request ended without its result.
enum class RequestError {
  kWorkersLost,  // the worker group was lost
  kTimedOut,     // the request exceeded the server's time limit
  kDeadline,     // the request exceeded the time limit its client set
  kAborted,      // an operator ended the request
  kNoNumbers,    // the model computed infinity or NaN for the request
  kOverworked,   // the request's grammar cost the workers too much work
  kDeadEnd,      // grammar, allowed tokens and forbidden words together allow no next token
  kNoRoom,       // the request waited in the queue beyond the limit, and no step computed any part of it
  kGivenUp,      // worker groups were lost too often while they computed it alone, or the KV cache became too small
};

/// Receives the results of one request. The engine's thread makes all calls, in order, so no method may block. Each
/// choice gets OnToken for every token, then OnFinish. If the request fails, OnError comes once and is the last call.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  /// Called at most once, before all other calls, when the first step with work of the request is planned.
  /// waited_seconds is the time since the request's arrival.
  virtual void OnStart(double /*waited_seconds*/) {}
  /// Gets the scores of the next prompt tokens, if the client asked for them. Every prompt token except the first is
  /// then scored once, in order, before the first call of OnToken. `prompt` begins with the whole prompt; generated
  /// tokens may follow it.
  virtual void OnPromptScores(const PromptScores&, const std::vector<TokenId>& /*prompt*/) {}
  /// Gets the next token of a choice. Returns true when the text now contains a stop string; the engine then finishes
  /// the choice with kStop.
  virtual bool OnToken(const TokenEvent& event) = 0;
  /// Called when a stop token ended the choice; that token is not delivered. The arguments are the choice and the
  /// token's log-probability, if the client asked for log-probabilities.
  virtual void OnHiddenStop(int, float) {}
  /// Gets the number of prompt tokens that came from the prefix cache. The engine calls it at most once, before the
  /// first token.
  virtual void OnCached(int) {}
  /// Called when a draft of the choice's next tokens was verified, before OnFinish: `accepted` of the tokens just
  /// delivered were in the draft, and `refused` further draft tokens were wrong or came after the answer's end.
  virtual void OnDrafts(int /*choice*/, int /*accepted*/, int /*refused*/) {}
  virtual void OnFinish(int choice, FinishReason reason) = 0;
  virtual void OnError(RequestError error, const std::string& message) = 0;
  /// True once no client waits for the results. Engine::Adopt then drops the request, because its cancellation may have
  /// reached only the engine that the request left.
  virtual bool Abandoned() const { return false; }
};

}  // namespace quire
