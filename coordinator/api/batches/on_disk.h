#pragma once

#include <spdlog/spdlog.h>

#include <boost/asio/this_coro.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "coordinator/http/api_error.h"
#include "coordinator/http/handoff.h"
#include "coordinator/http/work_pool.h"

namespace quire {

/// Throws `error` if it is an ApiError. Otherwise logs the error and throws ApiError 500 without the error's text,
/// which may name files of the server.
[[noreturn]] inline void RethrowForClient(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ApiError&) {
    throw;
  } catch (const std::exception& other) {
    spdlog::error("files and batches: {}", other.what());
  }
  throw ApiError(500, "the server's disk failed; its log says how");
}

/// Runs `work` on the disk's thread, queued for the client account `share`, and returns its result. Call it on the I/O
/// thread. Throws the ApiError that `work` threw, ApiError 500 for other errors of `work`, and 429 when too many jobs
/// wait.
template <class T>
boost::asio::awaitable<T> OnDisk(WorkPool& disk, std::string share, std::function<T()> work) {
  struct Outcome {
    std::optional<T> value;
    std::exception_ptr error;
  };
  const boost::asio::any_io_executor io = co_await boost::asio::this_coro::executor;
  const auto handoff = std::make_shared<Handoff<Outcome>>(io);
  const WorkPool::JobPtr job = disk.Add(share, 0, [handoff, work = std::move(work)](const std::stop_token&) {
    Outcome outcome;
    try {
      outcome.value = work();
    } catch (...) {
      outcome.error = std::current_exception();
    }
    handoff->Deliver(std::move(outcome));
  });
  if (job == nullptr) throw ApiError(429, "too much waits for the disk; try again later");
  Outcome outcome = co_await handoff->Take();
  if (outcome.error) RethrowForClient(outcome.error);
  co_return std::move(*outcome.value);
}

/// Runs `work`, for which no client waits, on the disk's thread. Returns nullopt when the work failed; the log then has
/// the error.
template <class T>
boost::asio::awaitable<std::optional<T>> TryOnDisk(WorkPool& disk, std::string share, std::function<T()> work) {
  try {
    T value = co_await OnDisk<T>(disk, std::move(share), std::move(work));
    co_return std::optional<T>(std::move(value));
  } catch (const std::exception& error) {
    spdlog::warn("batches: {}", error.what());
  }
  co_return std::nullopt;
}

}  // namespace quire
