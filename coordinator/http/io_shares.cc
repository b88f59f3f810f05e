#include "coordinator/http/io_shares.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>

#include "comm/base/host_limits.h"
#include "comm/base/thread_time.h"
#include "coordinator/http/await_token.h"

// The coroutines in this file avoid co_await expressions that g++ 12 miscompiles (coordinator/http/connection.cc).

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::milliseconds kTogether(100);  // time between the moments at which clients' waits end

}  // namespace

IoShares::IoShares(asio::execution_context& context)
    : service(context), keys_(static_cast<unsigned>(OwnProcessorRoom().count)), networks_(keys_) {}

void IoShares::Serve(Client client) {
  client_ = std::move(client);
  if (!begin_) begin_ = ThreadTime();
}

void IoShares::EndHandler() {
  if (!begin_) return;
  if (busy_ && busy_()) {
    WorkShares& shares = client_.has_key ? keys_ : networks_;
    shares.Charge(client_.name, ThreadTime() - *begin_, Clock::now());
  }
  begin_.reset();
}

IoShares::Clock::duration IoShares::RestOf(const Client& client) const {
  if (!busy_ || !busy_()) return Clock::duration::zero();
  const Clock::time_point now = Clock::now(), next = (client.has_key ? keys_ : networks_).Next(client.name);
  return next <= now ? Clock::duration::zero() : std::min<Clock::duration>(next - now, kLongestRest);
}

asio::awaitable<void> IoShares::Rest(Client client) {
  Serve(client);
  const Clock::duration rest = RestOf(client);
  if (rest <= Clock::duration::zero()) co_return;
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const Clock::time_point end = Clock::now() + rest;
  const Clock::time_point together = end + (kTogether - end.time_since_epoch() % kTogether);
  asio::steady_timer timer(executor, together);
  co_await timer.async_wait(kToken);
  Serve(client);
}

void RunIo(asio::io_context& io) {
  IoShares& shares = asio::use_service<IoShares>(io);
  while (io.run_one() > 0) shares.EndHandler();
}

}  // namespace quire
