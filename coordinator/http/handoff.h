#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <optional>
#include <utility>

namespace quire {

/// Passes one value of the movable type T from another thread to one coroutine of the I/O thread. Both sides share the
/// object.
template <class T>
class Handoff : public std::enable_shared_from_this<Handoff<T>> {
 public:
  explicit Handoff(boost::asio::any_io_executor executor)
      : executor_(executor), ready_(executor, boost::asio::steady_timer::time_point::max()) {}

  /// Sets the value. Call it once, from any thread.
  void Deliver(T value) {
    boost::asio::post(executor_, [self = this->shared_from_this(), value = std::move(value)]() mutable {
      self->value_ = std::move(value);
      self->ready_.cancel();
    });
  }

  /// Waits for the value and returns it. Call it on the I/O thread.
  boost::asio::awaitable<T> Take() {
    while (!value_) {
      co_await ready_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    }
    co_return std::move(*value_);
  }

 private:
  boost::asio::any_io_executor executor_;
  boost::asio::steady_timer ready_;
  std::optional<T> value_;
};

}  // namespace quire
