#pragma once

#include <string>
#include <utility>

#include "coordinator/http/http_types.h"

namespace quire {

/// Takes the answer to a request that came by no connection. Used by one coroutine of the I/O thread.
class LineResponder : public HttpResponder {
 public:
  boost::asio::awaitable<void> Send(HttpResponse response) override {
    if (answer_.status != 0) co_return;  // a part of another answer was given
    answer_ = std::move(response);
    answer_.body += answer_.fixed;
    whole_ = true;
    co_return;
  }
  boost::asio::awaitable<void> BeginStream() override { return BeginPieces({}); }
  boost::asio::awaitable<void> BeginPieces(std::string) override {
    answer_.status = 200;
    co_return;
  }
  boost::asio::awaitable<void> Write(std::string text) override {
    answer_.body += text;
    co_return;
  }
  boost::asio::awaitable<void> EndStream() override {
    whole_ = true;
    co_return;
  }
  bool gone() const override { return gone_; }

  /// Marks the answer as abandoned: no client waits for it any more.
  void Leave() {
    if (!std::exchange(gone_, true) && on_gone) on_gone();
  }

  /// The answer, or an error 500 when it ended before it was whole.
  HttpResponse Take() {
    if (!whole_) return ErrorResponse(500, "the answer ended before it was whole");
    return std::move(answer_);
  }

 private:
  HttpResponse answer_{.status = 0};
  bool gone_ = false, whole_ = false;
};

}  // namespace quire
