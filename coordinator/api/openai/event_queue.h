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

#include "coordinator/core/sequence.h"

namespace quire {

/// A token with its log-probability, as responses report it: ids, whose bytes the tokenizer knows.
struct ReportedToken {
  TokenId token = 0;
  float logprob = 0;  // NaN: the first of a prompt, which nothing predicts
  std::vector<std::pair<TokenId, float>> top;
  size_t text_offset = 0;  // characters of the choice's text before it
  int32_t rank = 0;        // in the vocabulary, of tokens of a prompt; 1: the likeliest
};

/// Something that happened to one choice of a call.
struct CallEvent {
  int choice = 0;  // over the whole call: prompt index * num_delivered + choice
  std::string text;
  size_t words = SIZE_MAX;              // of the words in the choice's text so far, this many bytes may be told
  std::vector<ReportedToken> tokens;    // when log-probabilities were asked for
  bool of_prompt = false;               // text and tokens are its prompt's, and so all its choices'
  int num_tokens = 0;                   // generated since the last event of this choice
  int cached_tokens = 0;                // of the prompt, taken from the prefix cache; once per prompt
  double mean_logprob = 0;              // with `finished`: of the choice's tokens, when best_of asks for it
  std::optional<double> queue_seconds;  // once per prompt: how long it waited
  std::optional<FinishReason> finished;
  std::string stop_sequence;   // with `finished`: the stop string that ended the choice, if one did
  std::vector<float> pooled;   // with `finished`: of the prompt; or log-probabilities of the tokens that were listed
  std::string error;           // ends the whole call
  bool accepted = false;       // one of the call's requests is in the queue; nothing else is set
  int error_status = 500;      // with error: the HTTP status it maps to
  bool retry_in_vain = false;  // with error: the same call would end in the same way
};

/// Events on their way from the engine's thread to one coroutine on the I/O thread.
class EventQueue : public std::enable_shared_from_this<EventQueue> {
 public:
  /// What may wait for a client that has stopped reading, beside what is said of its prompts.
  static constexpr size_t kMaxBytes = 256 << 10;

  explicit EventQueue(boost::asio::any_io_executor executor) : executor_(executor), timer_(executor) {}

  /// From any thread.
  void Push(CallEvent event);
  /// On the I/O thread: the next event, or nothing when none came for that long.
  boost::asio::awaitable<std::optional<CallEvent>> Next(std::chrono::milliseconds patience);
  /// On the I/O thread: ends a wait in Next without an event.
  void Wake() { timer_.cancel(); }
  /// The next event if one is there.
  std::optional<CallEvent> TryNext();

  /// Nobody takes events any more. Abandoned() from any thread.
  void Abandon() { abandoned_ = true; }
  bool Abandoned() const { return abandoned_; }

  /// On the I/O thread. When is_stalled says that the client takes nothing, and kMaxBytes wait for it or may_hold
  /// allows no more (asked from kFreeBytes on), on_overflow is called once; an error takes the place of all that waits,
  /// and nothing more is kept.
  static constexpr size_t kFreeBytes = 16 << 10;
  std::function<bool()> is_stalled;
  std::function<bool(size_t bytes)> may_hold;
  std::function<void()> on_overflow;

 private:
  void Keep(CallEvent event);

  boost::asio::any_io_executor executor_;
  boost::asio::steady_timer timer_;
  std::atomic<bool> abandoned_{false};
  std::list<CallEvent> events_;  // takes nothing while it is empty; touched on the I/O thread only, like the rest
  size_t bytes_ = 0;
  bool overflowed_ = false;
};

}  // namespace quire
