#pragma once

#include <boost/asio/this_coro.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "coordinator/api/requests/json_fields.h"
#include "coordinator/http/handoff.h"
#include "coordinator/http/http_types.h"
#include "coordinator/http/work_pool.h"

namespace quire {

/// Sets the responder's on_gone to `action` while an object of this class lives. The destructor restores the earlier
/// on_gone.
class WhenGone {
 public:
  WhenGone(HttpResponder& responder, std::function<void()> action)
      : responder_(responder), before_(std::exchange(responder.on_gone, std::move(action))) {}
  ~WhenGone() { responder_.on_gone = std::move(before_); }
  WhenGone(const WhenGone&) = delete;
  WhenGone& operator=(const WhenGone&) = delete;

 private:
  HttpResponder& responder_;
  std::function<void()> before_;
};

/// Returns the error for a request whose work in a pool took more than the time of one job
/// (WorkPool::Limits::job_time).
inline ApiError TooMuchWork() {
  ApiError error(400,
                 "reading this request takes more processor time than one request has here; send less text, or fewer "
                 "messages, tools and schemas");
  error.retry_in_vain = true;
  return error;
}

/// Runs `work`, which processes about `bytes` bytes, on the pool for the account `share` (HttpRequest::share). Returns
/// its result or rethrows its exception. Returns nullopt when the client left meanwhile; work that still waits is then
/// dropped. Throws ApiError 429 when too many jobs wait, and 400 when the work took too long. Await it on the I/O
/// thread.
template <class T>
boost::asio::awaitable<std::optional<T>> OnPool(WorkPool& pool, HttpResponder& responder, std::string share,
                                                size_t bytes, std::function<T(const std::stop_token&)> work) {
  struct Outcome {
    std::optional<T> value;
    std::exception_ptr error;
  };
  const boost::asio::any_io_executor io = co_await boost::asio::this_coro::executor;
  const auto handoff = std::make_shared<Handoff<Outcome>>(io);
  const WorkPool::JobPtr job = pool.Add(share, bytes, [handoff, work = std::move(work)](const std::stop_token& stop) {
    Outcome outcome;
    try {
      outcome.value = work(stop);
    } catch (...) {
      outcome.error = std::current_exception();
    }
    handoff->Deliver(std::move(outcome));
  });
  if (job == nullptr) throw ApiError(429, "too much work is waiting; try again later");
  const auto cancel = [&pool, &job, &handoff] {
    if (pool.Cancel(job)) handoff->Deliver({});
  };
  const WhenGone hook(responder, cancel);
  if (responder.gone()) cancel();
  Outcome outcome = co_await handoff->Take();
  if (responder.gone()) co_return std::nullopt;
  if (outcome.error && pool.TookTooLong(job)) throw TooMuchWork();
  if (outcome.error) std::rethrow_exception(outcome.error);
  co_return std::move(outcome.value);
}

}  // namespace quire
