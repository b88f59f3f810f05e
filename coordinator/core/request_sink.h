#pragma once

#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/sequence.h"

namespace quire {

/// One generated token on its way to the client.
struct TokenEvent {
  int choice = 0;
  TokenId token = 0;
  float logprob = 0;
  std::vector<std::pair<TokenId, float>> top;
  std::vector<float> pooled = {};  // of the prompt, with its first token, where it is to be pooled
  bool more_follow = false;        // at once, of the same choice
};

/// Why a request ended without its result.
enum class RequestError {
  kWorkersLost,  // the worker group is gone
  kTimedOut,     // it ran longer than a request may
  kDeadline,     // it ran longer than its client wanted it to
  kAborted,      // an operator ended it
  kNoNumbers,    // the model computed none for it
  kOverworked,   // keeping to its grammar took the workers too much
  kDeadEnd,      // its grammar, or what it allows and forbids, leaves nothing after what was generated
  kNoRoom,       // it waited longer than a request may, and nothing of it was computed
  kGivenUp,      // worker groups were lost with it again and again, or the pools are too small for it now
};

/// Where a request's results go. Called on the engine's thread, in order; it must not block.
/// Per choice: OnToken*, OnFinish; or OnError once for the whole request instead of whatever is still missing.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  /// Something of the request is computed for the first time, after it waited so long. At most once, before all else.
  virtual void OnStart(double /*waited_seconds*/) {}
  /// The next tokens of the prompt were scored: each once and in order, before the first token is drawn. `prompt` is
  /// the whole prompt; it may be followed by tokens that were drawn.
  virtual void OnPromptScores(const PromptScores&, const std::vector<TokenId>& /*prompt*/) {}
  /// Returns true when the text now ends the choice (a stop string): the engine finishes it with kStop.
  virtual bool OnToken(const TokenEvent& event) = 0;
  /// The choice ends by a stop token, which is not delivered; its log-probability when that was asked for.
  virtual void OnHiddenStop(int, float) {}
  /// So many prompt tokens came from the prefix cache. At most once, before the first token.
  virtual void OnCached(int) {}
  virtual void OnFinish(int choice, FinishReason reason) = 0;
  virtual void OnError(RequestError error, const std::string& message) = 0;
  /// True once nobody wants the results any more; asked when the request enters an engine that was not told so.
  virtual bool Abandoned() const { return false; }
};

}  // namespace quire
