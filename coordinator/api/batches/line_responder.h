#pragma once

#include <functional>
#include <string>
#include <utility>

#include "coordinator/http/http_types.h"

namespace quire {

/// Takes the answer to a request of a batch, which has no connection. The text of a long answer is written to the disk
/// while the answer is made, so that little of it is in memory. Only one coroutine of the I/O thread uses an object of
/// this class.
class LineResponder : public HttpResponder {
 public:
  static constexpr size_t kHeldBytes = 256 << 10;  // a shorter answer stays in memory as a whole
  /// Takes the next part of a long answer's text. Returns false when the disk failed.
  using Spill = std::function<boost::asio::awaitable<bool>(std::string text)>;

  explicit LineResponder(Spill spill) : spill_(std::move(spill)) {}

  boost::asio::awaitable<void> Send(HttpResponse response) override {
    if (answer_.status != 0) co_return;  // the answer has begun already
    std::string text = std::exchange(response.body, {});
    text += response.fixed;
    answer_ = std::move(response);
    co_await Write(std::move(text));
    whole_ = true;
  }
  boost::asio::awaitable<void> BeginStream() override { return BeginPieces({}); }
  boost::asio::awaitable<void> BeginPieces(std::string) override {
    answer_.status = 200;
    co_return;
  }
  boost::asio::awaitable<void> Write(std::string text) override {
    if (failed_) co_return;
    answer_.body += text;
    if (answer_.body.size() < kHeldBytes) co_return;
    text = std::exchange(answer_.body, {});
    const bool taken = co_await spill_(std::move(text));
    if (taken) co_return;
    failed_ = true;
    Leave();
  }
  boost::asio::awaitable<void> EndStream() override {
    whole_ = true;
    co_return;
  }
  bool gone() const override { return gone_; }
  /// True when Leave() ended the answer before it was whole.
  bool was_stopped() const { return gone_ && !whole_ && !failed_; }

  /// Marks the answer as abandoned: no client waits for it.
  void Leave() {
    if (!std::exchange(gone_, true) && on_gone) on_gone();
  }

  /// Returns the answer without the text that was written to the disk. Returns an error 503 when the disk failed, and
  /// 500 when the answer ended before it was whole.
  HttpResponse Take() {
    if (failed_) return ErrorResponse(503, "the server's disk failed; its log says how");
    if (!whole_) return ErrorResponse(500, "the answer ended before it was whole");
    return std::move(answer_);
  }

 private:
  Spill spill_;
  HttpResponse answer_{.status = 0};
  bool gone_ = false, whole_ = false, failed_ = false;
};

}  // namespace quire
