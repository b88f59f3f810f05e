#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "coordinator/client/server_address.h"

namespace quire {

/// A question to a server.
struct ClientRequest {
  ServerAddress server;
  boost::asio::ip::tcp::endpoint endpoint;  // server.Resolve()
  std::string authorization;                // "Bearer ...", or empty
  std::string path;
  std::optional<std::string> body;                                 // JSON, which is POSTed; nothing: a GET
  std::chrono::milliseconds patience = std::chrono::seconds(660);  // while nothing comes; Quire's requests take 600 s
  // What is not taken bit by bit comes as a whole: within `patience` in all, and once it comes, with its length known,
  // with at least 1 KiB a second over so long.
  std::chrono::milliseconds pace = std::chrono::seconds(10);
};

struct ClientAnswer {
  std::string problem;  // of the network; empty: the answer is whole
  int status = 0;       // 0: none came
  std::string body;     // 64 MiB at the most; what on_body left of it
  std::string request_id;
  std::optional<int> retry_after_seconds;
  bool may_retry = true;  // the server does not say that it would be in vain
};

/// Told of what has come so far of the body of an answer with status 200, of which it may take the front away. What it
/// throws ends the exchange.
using OnBody = std::function<void(std::string& body)>;

/// Sends the request over a connection of its own. The arguments must outlive the answer. Never throws for what the
/// network or the server does. Certificates are checked against the system's.
boost::asio::awaitable<ClientAnswer> Send(const ClientRequest& request, const OnBody& on_body);

/// What a refusal says, in OpenAI's form if it has that.
std::string RefusalOf(const ClientAnswer& answer);

}  // namespace quire
