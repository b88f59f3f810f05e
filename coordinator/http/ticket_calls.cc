#include "coordinator/http/ticket_calls.h"

#include "coordinator/http/await_token.h"

// g++ 12 miscompiles some co_await expressions. The coroutines here avoid them (coordinator/http/connection.cc).

namespace quire {

namespace asio = boost::asio;

asio::awaitable<void> TicketCalls::Await(Ticket ticket) {
  asio::steady_timer call(executor_, asio::steady_timer::time_point::max());
  waiting_[ticket] = &call;
  co_await call.async_wait(kToken);
}

}  // namespace quire
