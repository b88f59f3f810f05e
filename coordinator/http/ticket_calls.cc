#include "coordinator/http/ticket_calls.h"

#include "coordinator/http/await_token.h"

// The rule for co_await in connection.cc holds here, too.

namespace quire {

namespace asio = boost::asio;

asio::awaitable<void> TicketCalls::Await(Ticket ticket) {
  asio::steady_timer call(executor_, asio::steady_timer::time_point::max());
  waiting_[ticket] = &call;
  co_await call.async_wait(kToken);
}

}  // namespace quire
