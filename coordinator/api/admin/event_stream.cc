#include "coordinator/api/admin/event_stream.h"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "coordinator/api/openai/on_pool.h"
#include "coordinator/http/api_error.h"

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(100);
constexpr int kQuietLooksToPing = 100;  // 10 s: proxies close a connection that is silent for longer
constexpr size_t kEventsAtOnce = 64;    // a few KiB, for one write

/// Counts one reader of the stream while an object of this class lives.
class Reader {
 public:
  explicit Reader(int& readers) : readers_(readers) { ++readers_; }
  ~Reader() { --readers_; }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

 private:
  int& readers_;
};

}  // namespace

Json EventJson(const ServerEvent& event) {
  const std::chrono::duration<double> since_epoch = event.when.time_since_epoch();
  return {{"number", event.number},
          {"event", EventName(event.kind)},
          {"time", since_epoch.count()},
          {"replica", event.replica < 0 ? Json() : Json(event.replica)},
          {"request", event.request == 0 ? Json() : Json(event.request)},
          {"id", event.name.empty() ? Json() : Json(event.name)},
          {"text", event.text}};
}

/// Returns the events after event number `read` as server-sent events. Notes before them tell the reader how many
/// events were dropped because the reader is too slow, and how many the feed left out because too many of a kind came
/// within a short time. `left_out_told`: how many left-out events earlier notes have counted. Updates both numbers.
std::string EventStream::NextText(uint64_t& read, uint64_t& left_out_told) const {
  const EventFeed::Batch batch = feed_.After(read, kEventsAtOnce);
  std::string text;
  if (batch.lost > 0)
    text += "event: lost\ndata: " + DumpJson({{"events", batch.lost}, {"reason", "read too slowly"}}) + "\n\n";
  if (batch.left_out > left_out_told) {
    const uint64_t more = batch.left_out - std::exchange(left_out_told, batch.left_out);
    text += "event: left_out\ndata: " + DumpJson({{"events", more}, {"reason", "too many of a kind at once"}}) + "\n\n";
  }
  for (const ServerEvent& event : batch.events) {
    text +=
        fmt::format("id: {}\nevent: {}\ndata: {}\n\n", event.number, EventName(event.kind), DumpJson(EventJson(event)));
    read = event.number;
  }
  return text;
}

asio::awaitable<void> EventStream::Serve(uint64_t since, HttpResponder& responder) {
  if (num_readers_ >= kMostReaders) throw ApiError(429, fmt::format("{} others read the events already", kMostReaders));
  const Reader reader(num_readers_);
  const asio::any_io_executor io = co_await asio::this_coro::executor;
  asio::steady_timer timer(io);
  const WhenGone hook(responder, [&timer] { timer.cancel(); });
  uint64_t read = since, left_out_told = feed_.After(feed_.newest(), 0).left_out;
  co_await responder.BeginStream();
  std::string opening = fmt::format(": events after {}\n\n", read);
  co_await responder.Write(std::move(opening));
  for (int quiet = 0; !responder.gone();) {
    std::string text = NextText(read, left_out_told);
    const bool was_quiet = text.empty();
    quiet = was_quiet ? quiet + 1 : 0;
    if (quiet == kQuietLooksToPing) {
      text = ": ping\n\n";
      quiet = 0;
    }
    co_await responder.Write(std::move(text));
    if (responder.gone()) break;
    if (!was_quiet) continue;
    timer.expires_after(kLookEvery);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  }
  co_await responder.EndStream();
}

}  // namespace quire
