#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/core/sequence.h"

namespace quire {

/// One generated token on its way to the client.
struct TokenEvent {
  int choice = 0;
  TokenId token = 0;
  float logprob = 0;
  std::vector<std::pair<TokenId, float>> top;
};

/// Why a request ended without its result.
enum class RequestError {
  kWorkersLost,  // the worker group is gone
  kTimedOut,     // it waited or ran longer than a request may
};

/// Where a request's results go. Called on the engine's thread, in order; it must not block.
/// Per choice: OnToken*, OnFinish; or OnError once for the whole request instead of whatever is still missing.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  /// Returns true when the text now ends the choice (a stop string): the engine finishes it with kStop.
  virtual bool OnToken(const TokenEvent& event) = 0;
  virtual void OnFinish(int choice, FinishReason reason) = 0;
  virtual void OnError(RequestError error, const std::string& message) = 0;
};

struct GenerationLimits {
  int max_tokens = 16;                  // generated per choice
  std::vector<TokenId> stop_token_ids;  // end the choice, are not delivered; includes the model's own unless ignored
};

/// One prompt of an API call: n sequences that share it. They are scheduled, preempted and admitted together.
struct Request {
  RequestId id = 0;
  double arrival_seconds = 0;  // on the engine's clock
  GenerationLimits limits;
  SamplingSpec sampling;  // of choice 0; the others differ in `choice`
  std::vector<Sequence> sequences;
  std::shared_ptr<RequestSink> sink;

  /// Sequences 1.. share the blocks of sequence 0 up to the last prompt token, once it has computed them.
  bool forked = false;
  int num_preemptions = 0;
  double first_scheduled_seconds = -1;

  int num_prompt_tokens() const { return sequences.front().num_prompt_tokens; }
  bool finished() const {
    for (const Sequence& sequence : sequences) {
      if (!sequence.finished) return false;
    }
    return true;
  }
};

}  // namespace quire
