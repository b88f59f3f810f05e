#include <boost/asio/post.hpp>
#include <boost/beast/http.hpp>

#include "comm/base/error.h"
#include "coordinator/http/await_token.h"
#include "coordinator/http/connection.h"

// The writing side of a connection, which sends the answers. The coroutines in this file avoid co_await expressions
// that g++ 12 miscompiles (coordinator/http/connection.cc).

namespace quire {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

namespace {

constexpr size_t kOneWriteBytes = 64 << 10;                               // a body up to this size leaves with its head
constexpr size_t kTurnBytes = 64 << 10;                                   // written before other coroutines run
constexpr std::chrono::hours kLongestWrite = std::chrono::hours(7 * 24);  // most waiting for one answer, of any size

}  // namespace

std::string Connection::LastLines() const {
  std::string lines = "x-request-id: " + record.id + "\r\n";
  for (const auto& [name, value] : request_.answer_headers) lines += name + ": " + value + "\r\n";
  lines += keep_alive_ ? "\r\n" : "Connection: close\r\n\r\n";
  return lines;
}

void Connection::BeginAnswer() {
  keep_alive_ = keep_alive_ && !limits_.last_requests;  // the server may have begun to drain since the request came
  waited_ = {};
  taken_ = 0;
}

/// Sends a whole answer. If another answer has begun, ends the connection without the last chunk instead, so that the
/// client sees that the answer is not whole.
asio::awaitable<void> Connection::Send(HttpResponse response) {
  if (record.status != 0) {
    MarkGone();
    co_return;
  }
  BeginAnswer();
  if (response.status >= 400 && service_.restate) service_.restate(record, response);
  record.status = response.status;
  const auto reason = http::obsolete_reason(static_cast<http::status>(response.status));
  std::string text = fmt::format("HTTP/1.1 {} {}\r\nServer: quire\r\n", response.status,
                                 std::string_view(reason.data(), reason.size()));
  if (response.status != 204)  // 204 has no content
    text += fmt::format("Content-Type: {}\r\nContent-Length: {}\r\n", response.content_type,
                        response.length.value_or(response.body.size() + response.fixed.size()));
  for (const auto& [name, value] : response.headers) text += name + ": " + value + "\r\n";
  text += LastLines();
  if (!head_only_ && response.body.size() <= kOneWriteBytes) {
    text += response.body;
    response.body.clear();
  }
  co_await WriteRaw(std::move(text));
  if (head_only_) co_return;
  co_await WriteRaw(std::move(response.body));
  co_await WriteFrom(response.fixed);
}

asio::awaitable<void> Connection::BeginStream() {
  std::string head =
      "HTTP/1.1 200 OK\r\nServer: quire\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
      "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
  co_await Begin(std::move(head));
}

asio::awaitable<void> Connection::BeginPieces(std::string content_type) {
  std::string head = "HTTP/1.1 200 OK\r\nServer: quire\r\nContent-Type: " + content_type + "\r\n";
  co_await Begin(std::move(head));
}

/// Sends the head of an answer of unknown length. The answer ends with the last chunk; for an HTTP/1.0 client it ends
/// with the connection.
asio::awaitable<void> Connection::Begin(std::string head) {
  BeginAnswer();
  record.status = 200;
  if (chunked_) head += "Transfer-Encoding: chunked\r\n";
  head += LastLines();
  co_await WriteRaw(std::move(head));
}

asio::awaitable<void> Connection::Write(std::string text) {
  if (text.empty()) co_return;
  std::string chunk = chunked_ ? fmt::format("{:x}\r\n", text.size()) : "";
  chunk += text;
  if (chunked_) chunk += "\r\n";
  std::string().swap(text);  // frees the text: a slow client may delay the end of the write
  co_await WriteRaw(std::move(chunk));
}

asio::awaitable<void> Connection::EndStream() {
  if (!chunked_) co_return;
  std::string last = "0\r\n\r\n";
  co_await WriteRaw(std::move(last));
}

asio::awaitable<void> Connection::WriteRaw(std::string bytes) { co_await WriteFrom(bytes); }

/// Writes the bytes. Most writes fit the kernel's buffer and do not wait. Ends the connection when its client reads
/// nothing for write_seconds, or when it read fewer than write_bytes_per_second during waits of more than write_seconds
/// in all. During a wait the connection may be ended in favour of a new connection. Lets other coroutines run after
/// every kTurnBytes, because a write to a fast client never waits.
asio::awaitable<void> Connection::WriteFrom(std::string_view bytes) {
  const std::chrono::seconds patience(limits_.chosen.write_seconds);
  for (size_t done = 0; done < bytes.size() && !gone_;) {
    const auto rest = asio::buffer(bytes.data() + done, bytes.size() - done);
    const bool waited_before = waited_ > Clock::duration::zero();
    beast::error_code error = asio::error::would_block;
    size_t sent = 0;
    if (!socket_.encrypted()) sent = socket_.tcp().write_some(rest, error);
    if (error == asio::error::would_block) {
      stalled_ = true;
      const bool served = place_ != nullptr && !place_->silent();
      if (served) place_->AwaitClient();
      const Clock::time_point now = Clock::now();
      const auto allowed = TimeFor(taken_, limits_.chosen.write_bytes_per_second, patience, kLongestWrite) - waited_;
      SetDeadline(now + std::min<Clock::duration>(patience, allowed));
      if (socket_.encrypted()) {
        auto [write_error, count] = co_await socket_.tls().async_write_some(rest, kToken);
        error = write_error;
        sent = count;
      } else {
        auto [wait_error] = co_await socket_.tcp().async_wait(tcp::socket::wait_write, kToken);
        error = wait_error;
      }
      ClearDeadline();
      waited_ += Clock::now() - now;
      stalled_ = false;
      if (served) place_->ServeClient();
    }
    done += sent;
    if (waited_before) taken_ += sent;
    record.bytes += static_cast<int64_t>(sent);
    if (error) MarkGone();
    unbroken_ += sent;
    if (unbroken_ < kTurnBytes) continue;
    unbroken_ = 0;
    const auto executor = socket_.tcp().get_executor();
    co_await asio::post(executor, asio::use_awaitable);
  }
}

}  // namespace quire
