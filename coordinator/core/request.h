#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/beam_search.h"
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
  kDeadline,     // it ran longer than its client wanted it to
  kAborted,      // an operator ended it
  kNoNumbers,    // the model computed none for it
};

/// Where a request's results go. Called on the engine's thread, in order; it must not block.
/// Per choice: OnToken*, OnFinish; or OnError once for the whole request instead of whatever is still missing.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
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

struct GenerationLimits {
  int max_tokens = 16;                  // generated per choice
  std::vector<TokenId> stop_token_ids;  // end the choice, are not delivered; includes the model's own unless ignored
  double max_seconds = 0;               // from arrival to the last token; 0: the server's limit
};

/// What a client (an API key) was served; see WaitingQueue.
struct ClientAccount;

/// One prompt of an API call: sequences that share it. They are scheduled, preempted and admitted together.
struct Request {
  RequestId id = 0;
  std::string name;            // as the client knows it
  std::string client;          // whose share of the server it takes; empty: everybody's
  int priority = 0;            // lower goes first among the requests of one client
  double arrival_seconds = 0;  // on the engine's clock
  GenerationLimits limits;
  SamplingSpec sampling;            // of choice 0; the others differ in `choice`
  std::string cache_salt;           // requests share cached blocks only with those of the same salt
  std::vector<Sequence> sequences;  // with beams: one per beam
  std::shared_ptr<RequestSink> sink;
  std::unique_ptr<BeamSearch> beams;  // null: every sequence draws for itself

  // --- the scheduler's and the engine's ---

  /// Sequences 1.. share the blocks of sequence 0 up to the last prompt token, once it has computed them.
  bool forked = false;
  double rank = 0;  // orders its client's waiting requests; lower goes first
  int num_preemptions = 0;
  double last_moved_seconds = -1e9;             // when it came from another engine
  int num_lost_epochs = 0, num_lost_alone = 0;  // in a row, without a token: while it was computed; it and nobody else
  int num_swapped_blocks = 0;                   // on the host, distinct; while it is swapped out
  bool told_to_wait = false;                    // the decision log knows that it waits for a prefix
  int num_cached_tokens = 0;                    // prompt tokens taken from the prefix cache before the first preemption
  double first_scheduled_seconds = -1;
  ClientAccount* account = nullptr;

  int num_prompt_tokens() const { return sequences.front().num_prompt_tokens; }
  void GotToken() { num_lost_epochs = num_lost_alone = 0; }
  bool swapped_out() const { return num_swapped_blocks > 0; }
  bool finished() const {
    return std::ranges::all_of(sequences, [](const Sequence& sequence) { return sequence.finished.has_value(); });
  }
};

/// True when `a` is senior to `b`: who runs first in a step and who is preempted last. Arrival alone: a priority that a
/// client gives itself must not push others aside.
inline bool Senior(const Request& a, const Request& b) {
  return a.arrival_seconds != b.arrival_seconds ? a.arrival_seconds < b.arrival_seconds : a.id < b.id;
}

}  // namespace quire
