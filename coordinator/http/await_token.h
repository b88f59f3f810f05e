#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace quire {

/// The completion token of all coroutines in this folder. With it, errors are returned as values and not thrown: auto
/// [error, count] = co_await socket.async_read_some(buffer, kToken).
inline constexpr auto kToken = boost::asio::as_tuple(boost::asio::use_awaitable);

}  // namespace quire
