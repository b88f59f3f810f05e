#include "coordinator/api/openai/event_queue.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr size_t kSpelledToken = 40;  // bytes of a token and its log-probability in the answer's text

/// Returns the bytes that an event counts in the queue. An event of a prompt counts 0: prompts are charged before the
/// call begins, and their events come faster than any client reads.
size_t BytesOf(const CallEvent& event) {
  if (event.of_prompt) return 0;
  size_t bytes = sizeof(event) + event.text.size() + event.error.size();
  for (const ReportedToken& token : event.tokens) bytes += sizeof(token) + (1 + token.top.size()) * kSpelledToken;
  return bytes;
}

}  // namespace

void EventQueue::Push(CallEvent event) {
  asio::post(executor_, [self = shared_from_this(), event = std::move(event)]() mutable {
    self->Keep(std::move(event));
    self->timer_.cancel();
  });
}

void EventQueue::Keep(CallEvent event) {
  if (overflowed_) return;
  bytes_ += BytesOf(event);
  events_.push_back(std::move(event));
  if (bytes_ <= kFreeBytes || !is_stalled || !is_stalled()) return;
  if (bytes_ <= kMaxBytes && (!may_hold || may_hold(bytes_))) return;
  overflowed_ = true;
  events_.clear();
  CallEvent end;
  end.error = "the client reads too slowly";
  end.error_status = 408;
  end.retry_in_vain = true;
  events_.push_back(std::move(end));
  if (on_overflow) on_overflow();
}

asio::awaitable<std::optional<CallEvent>> EventQueue::Next(std::chrono::milliseconds patience) {
  if (events_.empty()) {
    timer_.expires_after(patience);
    co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
  }
  co_return TryNext();
}

std::optional<CallEvent> EventQueue::TryNext() {
  if (events_.empty()) return std::nullopt;
  std::optional<CallEvent> event = std::move(events_.front());
  events_.pop_front();
  bytes_ -= std::min(bytes_, BytesOf(*event));
  return event;
}

}  // namespace quire
