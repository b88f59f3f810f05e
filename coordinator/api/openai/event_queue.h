#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/blocks/sequence.h"

namespace quire {

/// A token with its log-probability, as an answer reports it. Texts are made later, from the ids.
struct ReportedToken {
  TokenId token = 0;
  float logprob = 0;  // NaN: the first token of a prompt has none
  std::vector<std::pair<TokenId, float>> top;
  size_t text_offset = 0;  // offset in the choice's text, in characters
  int32_t rank = 0;        // rank of a prompt token in the vocabulary; 1: the likeliest
};

/// One event of one choice of a call.
struct CallEvent {
  int choice = 0;  // index within the call: prompt index * num_delivered + choice
  std::string text;
  size_t words = SIZE_MAX;              // bytes of the choice's generated content that may be sent
  std::vector<ReportedToken> tokens;    // generated tokens, if the client asked for tokens
  bool of_prompt = false;               // text and tokens belong to the prompt, so to all choices of the prompt
  int num_tokens = 0;                   // tokens generated since the last event of this choice
  int accepted_drafts = 0;              // draft tokens that became part of the answer since the last event
  int refused_drafts = 0;               // draft tokens that did not become part of the answer since the last event
  int cached_tokens = 0;                // prompt tokens from the prefix cache; once per prompt
  double mean_logprob = 0;              // set with `finished` and best_of: mean log-probability of the choice's tokens
  std::optional<double> queue_seconds;  // seconds that the prompt waited; once per prompt
  std::optional<FinishReason> finished;
  std::string stop_sequence;   // with `finished`: the stop string that was found, if any
  std::vector<float> pooled;   // with `finished`: the pooled vector, or log-probabilities of the listed tokens
  std::string error;           // error text; it ends the whole call
  bool accepted = false;       // true: the engine queued one of the call's requests; no other member is set
  int error_status = 500;      // HTTP status of `error`
  bool retry_in_vain = false;  // with `error`: a retry of the call would fail in the same way
};

/// Carries events from the engine's thread to one coroutine on the I/O thread.
class EventQueue : public std::enable_shared_from_this<EventQueue> {
 public:
  /// The most bytes of events that wait for a client that has stopped reading. Events of prompts do not count.
  static constexpr size_t kMaxBytes = 256 << 10;

  explicit EventQueue(boost::asio::any_io_executor executor) : executor_(executor), timer_(executor) {}

  /// Adds an event. Any thread may call it.
  void Push(CallEvent event);
  /// Returns the next event; nullopt when there was none within `patience`. Call it on the I/O thread.
  boost::asio::awaitable<std::optional<CallEvent>> Next(std::chrono::milliseconds patience);
  /// Ends a wait in Next without an event. Call it on the I/O thread.
  void Wake() { timer_.cancel(); }
  /// Returns the next event if there is one. Call it on the I/O thread.
  std::optional<CallEvent> TryNext();

  /// Marks the queue as no longer read, so that the engine drops its requests. Abandoned() is callable from any
  /// thread.
  void Abandon() { abandoned_ = true; }
  bool Abandoned() const { return abandoned_; }

  /// While is_stalled() is true, the queue overflows in two cases: more than kMaxBytes wait; or more than kFreeBytes
  /// wait and may_hold() refuses. Then an error replaces all waiting events, later events are dropped, and on_overflow
  /// is called once. The three functions are called on the I/O thread.
  static constexpr size_t kFreeBytes = 16 << 10;
  std::function<bool()> is_stalled;
  std::function<bool(size_t bytes)> may_hold;
  std::function<void()> on_overflow;

 private:
  void Keep(CallEvent event);

  boost::asio::any_io_executor executor_;
  boost::asio::steady_timer timer_;
  std::atomic<bool> abandoned_{false};
  std::list<CallEvent> events_;  // a list: an empty one allocates nothing. Used on the I/O thread only
  size_t bytes_ = 0;
  bool overflowed_ = false;
};

}  // namespace quire
