#include "coordinator/client/server_address.h"

#include <boost/asio/io_context.hpp>

#include "comm/base/error.h"
#include "comm/model/formats/mapped_file.h"
#include "comm/topology/topology.h"

namespace quire {

namespace asio = boost::asio;

asio::ip::tcp::endpoint ServerAddress::Resolve() const {
  asio::io_context io;
  asio::ip::tcp::resolver resolver(io);
  boost::system::error_code error;
  const auto found = resolver.resolve(host, port, error);
  if (error) Fail("{}: {}", authority(), error.message());
  return found.begin()->endpoint();
}

ServerAddress ParseServerAddress(const std::string& url, const std::string& what) {
  ServerAddress address;
  std::string_view rest = url;
  const auto drop = [&rest](std::string_view prefix) {
    const bool there = rest.starts_with(prefix);
    if (there) rest.remove_prefix(prefix.size());
    return there;
  };
  address.encrypted = drop("https://");
  if (!address.encrypted) drop("http://");
  for (const std::string_view end : {"/", "/v1"}) {
    if (rest.ends_with(end)) rest.remove_suffix(end.size());
  }
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const size_t colon = rest.rfind(':');
  const bool has_port = colon != std::string_view::npos && rest.find(']', colon) == std::string_view::npos;
  const auto parsed = ParseHostPort(std::string(rest) + (has_port ? "" : address.encrypted ? ":443" : ":80"));
  if (!parsed || rest.find('/') != std::string_view::npos) FailSettings("{} \"{}\" is not http://HOST:PORT", what, url);
  address.host = parsed->host;
  address.port = std::to_string(parsed->port);
  return address;
}

std::string AuthorizationFrom(const std::string& key_file) {
  if (key_file.empty()) return "";
  const std::string text = ReadAsSettings([&] { return ReadTextFile(key_file, 1 << 16); });
  return "Bearer " + text.substr(0, text.find_first_of("\r\n"));
}

}  // namespace quire
