#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "coordinator/api/http/await_token.h"
#include "coordinator/api/http/connection.h"

// How a connection begins under TLS, and how either side ends it. The house rule of connection.cc for coroutines holds
// here, too.

namespace quire {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;

namespace {

constexpr auto kPollForEndEvery = std::chrono::milliseconds(200);
constexpr auto kGoodbye = std::chrono::seconds(1);
constexpr unsigned char kHandshake = 0x16;  // what every TLS connection begins with
constexpr auto kAfterHello = std::chrono::seconds(5);
// What a client's first record begins with: its type, version and length; then the type of the hello and its length.
constexpr size_t kRecordHead = 5, kHelloHead = 4, kHeads = kRecordHead + kHelloHead;
constexpr size_t kMostInRecord = 16 << 10;
constexpr int kMostWaits = 64;  // for so many bytes: the kernel may call earlier when it is short of memory

/// Bytes of the first record, when that is to hold a whole hello, as those of clients do; 0 when not. OpenSSL would
/// take 128 KiB, for which it makes room as soon as it knows the length, in as many records as there are bytes.
size_t BytesOfHello(const unsigned char (&heads)[kHeads]) {
  const size_t in_record = heads[3] * 256u + heads[4], in_hello = heads[6] * 65536u + heads[7] * 256u + heads[8];
  const bool whole = heads[0] == kHandshake && heads[kRecordHead] == 1 && in_hello + kHelloHead <= in_record &&
                     in_record <= kMostInRecord;
  return whole ? kRecordHead + in_record : 0;
}

}  // namespace

/// Until so many bytes are here, in the kernel's memory. False: they do not come.
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
    pollfd state{socket_.tcp().native_handle(), POLLRDHUP, 0};
    ::poll(&state, 1, 0);
    if (state.revents != 0) break;
  }
  co_return false;
}

/// A hello waits for its end, and then for its turn, in the kernel's memory: OpenSSL is not asked before, because what
/// it holds of a connection is ten times as much as all the rest.
asio::awaitable<bool> Connection::Secure() {
  SetDeadline(Clock::now() + std::chrono::seconds(limits_.chosen.head_seconds));
  auto [wait_error] = co_await socket_.tcp().async_wait(tcp::socket::wait_read, kToken);
  unsigned char heads[kHeads] = {};
  if (wait_error || ::recv(socket_.tcp().native_handle(), heads, 1, MSG_PEEK | MSG_DONTWAIT) != 1) co_return false;
  if (heads[0] != kHandshake) {
    if (heads[0] >= 'A' && heads[0] <= 'Z') {  // a method
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
    // All that costs a signature is here, so what waits its turn cannot be kept for a moment when others do the same.
    handshake_ticket_ = turns_.handshakes.NewTicket();
    co_await turns_.handshakes.Await(handshake_ticket_, peer_);
    if (gone_) co_return false;
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

/// Tells the other side that nothing more comes, and hears the same from it if it says so soon.
asio::awaitable<void> Connection::SayGoodbye() {
  if (gone_ || said_goodbye_) co_return;
  said_goodbye_ = true;
  SetDeadline(Clock::now() + kGoodbye);
  co_await socket_.tls().async_shutdown(kToken);
  ClearDeadline();
}

/// While a handler works, the socket is watched for the client's end. A half-close counts as one. Bytes of a next
/// request stay in the socket.
void Connection::WatchForEnd() {
  watching_ = true;
  if (!socket_.encrypted()) return AwaitReadable();
  // Only reading tells an end of TLS from a next request; of that, one byte is enough to know.
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
    self->PollForEnd();  // pipelined bytes keep the socket readable: waiting would return at once
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
      if (self->poll_timer_ != nullptr) self->poll_timer_->cancel();  // AwaitEarlyRead waits for it
      return;
    }
    if (error && error != asio::error::operation_aborted) return self->MarkGone();
    if (!error) self->PollForEnd();
  });
}

/// The buffer is the next request's again only when no read is on its way into it.
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
    pollfd state{self->socket_.tcp().native_handle(), POLLRDHUP, 0};
    ::poll(&state, 1, 0);
    if ((state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) return self->MarkGone();
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
  ClearDeadline();  // it would keep the connection until then
  socket_.Close();
}

}  // namespace quire
