#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <string>

namespace quire {

/// Where a server with OpenAI's API listens, Quire's or another one.
struct ServerAddress {
  std::string host, port;
  bool encrypted = false;  // https

  /// As the Host header has it.
  std::string authority() const { return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port; }
  /// Throws Error when the name is not known.
  boost::asio::ip::tcp::endpoint Resolve() const;
};

/// [http://|https://]HOST[:PORT], with what clients of OpenAI's API end it with: "/" or "/v1". Throws Error, which
/// begins with `what`, for anything else.
ServerAddress ParseServerAddress(const std::string& url, const std::string& what);

/// The header of the API key that stands in the first line of a file; empty for no file. Throws Error when it cannot be
/// read.
std::string AuthorizationFrom(const std::string& key_file);

}  // namespace quire
