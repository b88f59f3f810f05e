#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/api/openai_request.h"
#include "coordinator/cluster/replicas.h"
#include "coordinator/text/tokenizer.h"

namespace quire {

/// A token with its log-probability, as responses report it.
struct ReportedToken {
  std::string text;  // the token's own bytes
  float logprob = 0;
  std::vector<std::pair<std::string, float>> top;
};

/// Something that happened to one choice of a call.
struct GenerationEvent {
  int choice = 0;  // over the whole call: prompt index * num_delivered + choice
  std::string text;
  std::vector<ReportedToken> tokens;  // when log-probabilities were asked for
  int num_tokens = 0;                 // generated since the last event of this choice
  int cached_tokens = 0;              // of the prompt, taken from the prefix cache; once per prompt
  double mean_logprob = 0;            // with `finished`: of the choice's tokens, when best_of asks for it
  std::optional<FinishReason> finished;
  std::string error;       // ends the whole call
  bool accepted = false;   // one of the call's requests is in the queue; nothing else is set
  int error_status = 500;  // with error: the HTTP status it maps to
};

/// Events on their way from the engine's thread to one coroutine on the I/O thread.
class EventQueue : public std::enable_shared_from_this<EventQueue> {
 public:
  explicit EventQueue(boost::asio::any_io_executor executor) : executor_(executor), timer_(executor) {}

  /// From any thread.
  void Push(GenerationEvent event);
  /// On the I/O thread: the next event, or nothing when none came for that long.
  boost::asio::awaitable<std::optional<GenerationEvent>> Next(std::chrono::milliseconds patience);
  /// On the I/O thread: ends a wait in Next without an event.
  void Wake() { timer_.cancel(); }
  /// The next event if one is there.
  std::optional<GenerationEvent> TryNext();

  /// Nobody takes events any more. Abandoned() from any thread.
  void Abandon() { abandoned_ = true; }
  bool Abandoned() const { return abandoned_; }

 private:
  boost::asio::any_io_executor executor_;
  boost::asio::steady_timer timer_;
  std::atomic<bool> abandoned_{false};
  std::deque<GenerationEvent> events_;  // touched on the I/O thread only
};

/// Who asks where no keys are needed: a digest of the Authorization header; empty for none.
std::string ClientId(const std::string& authorization);

/// What separates cached prefixes: a client's are its own, and it may separate them further.
std::string CacheSalt(const std::string& client, const std::string& cache_salt);

/// What every call needs of the server.
struct GenerationContext {
  const Tokenizer& tokenizer;
  Replicas& replicas;
  std::vector<TokenId> eos_token_ids;
};

/// One call's requests in one engine after another, from submission to the last event. Cancelled when it is destroyed.
class Generation {
 public:
  /// prompts: the tokens of every prompt. request_id: the first of prompts.size() ids that are free for it.
  Generation(const GenerationContext& context, const GenerateCall& call, std::vector<std::vector<TokenId>> prompts,
             int max_tokens, RequestId first_id, const std::string& name, boost::asio::any_io_executor executor);
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  EventQueue& events() { return *events_; }
  int num_choices() const { return num_choices_; }
  void Cancel();

 private:
  Replicas& replicas_;
  std::shared_ptr<EventQueue> events_;
  std::vector<RequestId> ids_;
  int num_choices_ = 0;
  bool cancelled_ = false;
};

}  // namespace quire
