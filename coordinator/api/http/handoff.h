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

/// A value that another thread makes for one coroutine of the I/O thread. Shared by both; T moves.
template <class T>
class Handoff : public std::enable_shared_from_this<Handoff<T>> {
 public:
  explicit Handoff(boost::asio::any_io_executor executor)
      : executor_(executor), ready_(executor, boost::asio::steady_timer::time_point::max()) {}

  /// From any thread, once.
  void Deliver(T value) {
    boost::asio::post(executor_, [self = this->shared_from_this(), value = std::move(value)]() mutable {
      self->value_ = std::move(value);
      self->ready_.cancel();
    });
  }

  /// On the I/O thread.
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
