#include "coordinator/http/ticket_calls.h"

#include "coordinator/http/await_token.h"

// The coroutines in this file avoid co_await expressions that g++ 12 miscompiles (coordinator/http/connection.cc).

namespace quire {

namespace asio = boost::asio;

asio::awaitable<bool> TicketCalls::Await(Ticket ticket) {
  asio::steady_timer call(executor_, asio::steady_timer::time_point::max());
  bool may = true;
  waiting_[ticket] = {&call, &may};
  co_await call.async_wait(kToken);
  co_return may;
}

void TicketCalls::Call(Ticket ticket, bool may) {
  const Waiter waiter = waiting_.extract(ticket).mapped();
  *waiter.may = may;
  waiter.timer->cancel();
}

}  // namespace quire
