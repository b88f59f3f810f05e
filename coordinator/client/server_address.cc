#include "coordinator/client/server_address.h"

#include <boost/asio/io_context.hpp>

#include "comm/error.h"
#include "comm/model/mapped_file.h"

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
  address.host = rest.substr(0, has_port ? colon : std::string_view::npos);
  address.port = has_port ? std::string(rest.substr(colon + 1)) : address.encrypted ? "443" : "80";
  if (address.host.starts_with('[') && address.host.ends_with(']'))
    address.host = address.host.substr(1, address.host.size() - 2);
  const bool is_number = !address.port.empty() && address.port.find_first_not_of("0123456789") == std::string::npos;
  if (address.host.empty() || !is_number || rest.find('/') != std::string_view::npos)
    Fail("{} \"{}\" is not http://HOST:PORT", what, url);
  return address;
}

std::string AuthorizationFrom(const std::string& key_file) {
  if (key_file.empty()) return "";
  const std::string text = ReadTextFile(key_file, 1 << 16);
  return "Bearer " + text.substr(0, text.find_first_of("\r\n"));
}

}  // namespace quire
