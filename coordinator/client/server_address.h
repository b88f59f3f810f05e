#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <string>

namespace quire {

/// The address of a server with OpenAI's API, Quire's or another one.
struct ServerAddress {
  std::string host, port;
  bool encrypted = false;  // true for https

  /// Returns the value of the Host header.
  std::string authority() const { return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port; }
  /// Resolves the host's name. Throws Error when that fails.
  boost::asio::ip::tcp::endpoint Resolve() const;
};

/// Parses [http://|https://]HOST[:PORT], optionally with "/" or "/v1" at its end, as clients of OpenAI's API write it.
/// Throws SettingsError, which begins with `what`, for anything else.
ServerAddress ParseServerAddress(const std::string& url, const std::string& what);

/// Returns the authorization header for the API key in the first line of a file; "" when key_file is empty. Throws
/// SettingsError when the file cannot be read.
std::string AuthorizationFrom(const std::string& key_file);

}  // namespace quire
