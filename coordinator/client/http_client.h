#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/client/server_address.h"

namespace quire {

/// A request to a server.
struct ClientRequest {
  ServerAddress server;
  boost::asio::ip::tcp::endpoint endpoint;  // address from server.Resolve()
  std::string authorization;                // "Bearer ...", or empty
  std::string path;
  std::optional<std::string> body;                                 // JSON for a POST; nullopt: a GET
  std::chrono::milliseconds patience = std::chrono::seconds(660);  // longest silence in an answer; requests take up to
                                                                   // 600 s
  // Only for exchanges without an on_body callback: the whole answer must arrive within `patience`, and once the length
  // of the body is known, at least 1 KiB/s must arrive in every period of `pace`.
  std::chrono::milliseconds pace = std::chrono::seconds(10);
  std::vector<std::pair<std::string, std::string>> headers = {};  // further header fields, without line ends
};

struct ClientAnswer {
  std::string problem;  // network error; empty: the answer is complete
  int status = 0;       // 0: no answer came
  std::string body;     // at most 64 MiB; without the part that on_body removed
  std::string request_id;
  std::optional<int> retry_after_seconds;
  bool may_retry = true;  // false: the server says that a retry is useless

  /// True when the server refused the request for lack of capacity (429, 503), so that a later try may succeed.
  bool FoundNoRoom() const { return problem.empty() && may_retry && (status == 429 || status == 503); }
};

/// Called when bytes of the body have arrived, if the status is 200. `body` has the bytes that no earlier call has
/// removed. The callback may remove bytes from the front of `body`. An exception from the callback ends the exchange.
using OnBody = std::function<void(std::string& body)>;

/// Sends the request over a new connection. The arguments must outlive the call. Network and server errors never throw.
/// TLS certificates are checked against the system's certificates.
boost::asio::awaitable<ClientAnswer> Send(const ClientRequest& request, const OnBody& on_body);

/// Returns the status and the text of a refusal: the message in OpenAI's form if there is one, otherwise the first 2000
/// bytes of the body.
std::string RefusalOf(const ClientAnswer& answer);

}  // namespace quire
