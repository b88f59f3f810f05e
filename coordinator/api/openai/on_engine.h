#pragma once

#include <boost/asio/this_coro.hpp>
#include <functional>
#include <memory>

#include "coordinator/cluster/group/engine_loop.h"
#include "coordinator/http/handoff.h"

namespace quire {

/// Runs `task` on the engine's thread and returns its result. Await it on the I/O thread.
template <class T>
boost::asio::awaitable<T> OnEngine(EngineLoop& loop, std::function<T(Engine&)> task) {
  const boost::asio::any_io_executor io = co_await boost::asio::this_coro::executor;
  const auto handoff = std::make_shared<Handoff<T>>(io);
  loop.Post([handoff, task = std::move(task)](Engine& engine) { handoff->Deliver(task(engine)); });
  T result = co_await handoff->Take();
  co_return result;
}

}  // namespace quire
