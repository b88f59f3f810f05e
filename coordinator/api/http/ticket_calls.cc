#include "coordinator/api/http/ticket_calls.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

// House rule for coroutines: see http_server.cc.

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);

}  // namespace

asio::awaitable<void> TicketCalls::Await(Ticket ticket) {
  asio::steady_timer call(executor_, asio::steady_timer::time_point::max());
  waiting_[ticket] = &call;
  co_await call.async_wait(kToken);
}

}  // namespace quire
