#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "coordinator/http/await_token.h"
#include "coordinator/http/connection.h"

// Connection's functions for the TLS handshake, and for the end of the connection from either side.
// The coroutines in this file avoid co_await expressions that g++ 12 miscompiles (coordinator/http/connection.cc).

namespace quire {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;

namespace {

constexpr auto kPollForEndEvery = std::chrono::milliseconds(200);
constexpr auto kGoodbye = std::chrono::seconds(1);
constexpr unsigned char kHandshake = 0x16;  // the first byte of every TLS connection
constexpr auto kAfterHello = std::chrono::seconds(5);
// A client's first record begins with type, version and length of the record, then type and length of the hello.
constexpr size_t kRecordHead = 5, kHelloHead = 4, kHeads = kRecordHead + kHelloHead;
constexpr size_t kMostInRecord = 16 << 10;
// The most waits of one call of AwaitBytes. More than one may be needed, because a wait may end before the bytes have
// arrived if the kernel is short of memory.
constexpr int kMostWaits = 64;

/// Returns the size of the first TLS record in bytes, with its header, if the record holds a whole ClientHello;
/// otherwise 0. Real clients send the ClientHello in one record. OpenSSL would also accept a ClientHello of 128 KiB
/// that is split into one-byte records, and would allocate memory for all of it once the length is known.
size_t BytesOfHello(const unsigned char (&heads)[kHeads]) {
  const size_t in_record = heads[3] * 256u + heads[4], in_hello = heads[6] * 65536u + heads[7] * 256u + heads[8];
  const bool whole = heads[0] == kHandshake && heads[kRecordHead] == 1 && in_hello + kHelloHead <= in_record &&
                     in_record <= kMostInRecord;
  return whole ? kRecordHead + in_record : 0;
}

/// Returns whether the peer has closed or reset the connection, or sends nothing more.
bool HasEnded(int socket) {
  pollfd state{socket, POLLRDHUP, 0};
  ::poll(&state, 1, 0);
  return state.revents != 0;
}

}  // namespace

/// Waits until `count` bytes are in the kernel's receive buffer. Returns false when the client will not send them.
asio::awaitable<bool> Connection::AwaitBytes(size_t count) {
  beast::error_code gone;
  socket_.tcp().set_option(tcp::socket::receive_low_watermark(static_cast<int>(count)), gone);
  for (int i = 0; i < kMostWaits && !gone; ++i) {
    auto [no_more] = co_await socket_.tcp().async_wait(tcp::socket::wait_read, kToken);
    if (no_more || gone_) break;
    if (socket_.tcp().available(gone) >= count && !gone) {
      socket_.tcp().set_option(tcp::socket::receive_low_watermark(1), gone);
      co_return !gone;
    }
    if (HasEnded(socket_.tcp().native_handle())) break;
  }
  co_return false;
}

/// Does the TLS handshake. The client's hello stays in the kernel's buffer until it is whole and the connection's turn
/// has come. Only then is OpenSSL's state created, which is ten times as large as everything else of a connection.
asio::awaitable<bool> Connection::Secure() {
  SetDeadline(Clock::now() + std::chrono::seconds(limits_.chosen.head_seconds));
  auto [wait_error] = co_await socket_.tcp().async_wait(tcp::socket::wait_read, kToken);
  unsigned char heads[kHeads] = {};
  if (wait_error || ::recv(socket_.tcp().native_handle(), heads, 1, MSG_PEEK | MSG_DONTWAIT) != 1) co_return false;
  if (heads[0] != kHandshake) {
    if (heads[0] >= 'A' && heads[0] <= 'Z') {  // looks like an HTTP method in clear text
      HttpResponse answer = ErrorResponse(400, "this port speaks TLS: use https://");
      co_await Refuse(std::move(answer));
    }
    co_return false;
  }
  const bool begins = co_await AwaitBytes(kHeads);
  const ssize_t count = ::recv(socket_.tcp().native_handle(), heads, sizeof(heads), MSG_PEEK | MSG_DONTWAIT);
  const size_t size = begins && count == sizeof(heads) ? BytesOfHello(heads) : 0;
  if (size == 0) co_return false;
  const bool whole = co_await AwaitBytes(size);
  ClearDeadline();
  if (!whole) co_return false;
  HandshakeTurns::Open open;
  for (;;) {
    // The whole hello has arrived. The next step computes a signature, so it waits for its turn.
    handshake_ticket_ = turns_.handshakes.NewTicket();
    std::function<bool()> ended = [fd = socket_.tcp().native_handle()] { return HasEnded(fd); };
    const bool may = co_await turns_.handshakes.Await(handshake_ticket_, peer_, std::move(ended));
    if (!may || gone_) co_return false;
    if (!socket_.encrypted()) {
      socket_.BeginTls();
      open = turns_.handshakes.Enter([weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->GiveWay();
      });
    }
    socket_.PassHello();
    SetDeadline(Clock::now() +
                std::min<Clock::duration>(kAfterHello, std::chrono::seconds(limits_.chosen.head_seconds)));
    auto [error] = co_await socket_.tls().async_handshake(asio::ssl::stream_base::server, kToken);
    ClearDeadline();
    if (!error) socket_.EndHandshake();
    if (!error || gone_ || !socket_.stopped_at_hello()) co_return !error && !gone_;
  }
}

/// Sends TLS's close_notify, then waits for the client's close_notify, kGoodbye at most.
asio::awaitable<void> Connection::SayGoodbye() {
  if (gone_ || said_goodbye_) co_return;
  said_goodbye_ = true;
  SetDeadline(Clock::now() + kGoodbye);
  co_await socket_.tls().async_shutdown(kToken);
  ClearDeadline();
}

/// Begins to watch, while a handler works, whether the client ends the connection; a half-close counts as an end. Bytes
/// of a next request stay in the socket, except that under TLS the first of them is read into buffer_.
void Connection::WatchForEnd() {
  watching_ = true;
  if (!socket_.encrypted()) return AwaitReadable();
  // Under TLS only a read tells whether the client has closed or sent its next request. Reading one byte is enough.
  if (buffer_.size() > 0) return PollForEnd();
  ReadEarly();
}

void Connection::AwaitReadable() {
  socket_.tcp().async_wait(tcp::socket::wait_read, [self = shared_from_this()](beast::error_code error) {
    if (error || !self->watching_) return;
    char byte = 0;
    const ssize_t count = ::recv(self->socket_.tcp().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN)) return self->MarkGone();
    if (count < 0) return self->AwaitReadable();
    self->PollForEnd();  // pipelined bytes keep the socket readable, so a wait would not wait
  });
}

void Connection::ReadEarly() {
  reading_early_ = true;
  const auto into = asio::buffer(&early_, 1);
  socket_.async_read_some(into, [self = shared_from_this()](beast::error_code error, size_t count) {
    self->reading_early_ = false;
    if (count > 0) {
      *static_cast<char*>(self->buffer_.prepare(1).data()) = self->early_;
      self->buffer_.commit(1);
    }
    if (!self->watching_) {
      if (self->poll_timer_ != nullptr) self->poll_timer_->cancel();  // AwaitEarlyRead waits for this timer
      return;
    }
    if (error && error != asio::error::operation_aborted) return self->MarkGone();
    if (!error) self->PollForEnd();
  });
}

/// Waits until ReadEarly's read is over, because that read writes into buffer_, which the next request uses.
asio::awaitable<void> Connection::AwaitEarlyRead() {
  if (poll_timer_ == nullptr) poll_timer_ = std::make_unique<asio::steady_timer>(socket_.get_executor());
  while (reading_early_) {
    poll_timer_->expires_at(Clock::time_point::max());
    co_await poll_timer_->async_wait(kToken);
  }
}

void Connection::PollForEnd() {
  if (poll_timer_ == nullptr) poll_timer_ = std::make_unique<asio::steady_timer>(socket_.get_executor());
  poll_timer_->expires_after(kPollForEndEvery);
  poll_timer_->async_wait([self = shared_from_this()](beast::error_code error) {
    if (error || !self->watching_) return;
    if (HasEnded(self->socket_.tcp().native_handle())) return self->MarkGone();
    self->PollForEnd();
  });
}

void Connection::StopWatching() {
  watching_ = false;
  if (poll_timer_ != nullptr) poll_timer_->cancel();
  beast::error_code ignored;
  if (!gone_) socket_.tcp().cancel(ignored);
}

void Connection::MarkGone() {
  if (gone_) return;
  gone_ = true;
  if (on_gone) on_gone();
}

void Connection::Close() {
  ClearDeadline();  // a pending deadline holds a reference to this connection
  socket_.Close();
}

}  // namespace quire
