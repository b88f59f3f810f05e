#include "coordinator/server/exposure.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "comm/base/error.h"
#include "comm/base/plain_word.h"

namespace quire {

namespace {

using Bytes6 = std::array<uint8_t, 16>;

Reach ReachOfV4(uint32_t address) {
  if (address == 0) return Reach::kWildcard;
  return (address >> 24) == 127 ? Reach::kLoopback : Reach::kNetwork;
}

Reach ReachOfV6(const Bytes6& bytes) {
  const auto zeros = std::find_if(bytes.begin(), bytes.end(), [](uint8_t b) { return b != 0; }) - bytes.begin();
  if (zeros == 16) return Reach::kWildcard;
  if (zeros == 15 && bytes[15] == 1) return Reach::kLoopback;
  const bool mapped = zeros == 10 && bytes[10] == 0xff && bytes[11] == 0xff;  // an IPv4-mapped address, ::ffff:1.2.3.4
  const bool mapped_wildcard = mapped && std::all_of(bytes.begin() + 12, bytes.end(), [](uint8_t b) { return b == 0; });
  if (mapped_wildcard) return Reach::kWildcard;
  return mapped && bytes[12] == 127 ? Reach::kLoopback : Reach::kNetwork;
}

void CheckTransport(const Topology::Transport& transport, const std::string& where) {
  if (transport.bind.empty()) return;  // a local socket in this server's own directory
  switch (ReachOf(transport.bind)) {
    case Reach::kLoopback:
      return;
    case Reach::kUnknown:
      Fail("{}: transport.bind \"{}\" must be an IP address of this host", where, transport.bind);
    case Reach::kWildcard:
      Fail("{}: transport.bind {} would listen on every interface; give the one address that the workers use", where,
           transport.bind);
    case Reach::kNetwork:
      if (!transport.keys.empty() || transport.insecure) return;
      Fail(
          "{}: transport.bind {} is reachable from other machines, and there are no keys: quire keygen --transport DIR "
          "--ranks N, and transport.keys: DIR (or transport.insecure: true in a network that only trusted hosts reach)",
          where, transport.bind);
  }
}

void CheckServer(const Topology::Listener& server, const std::string& where) {
  const std::string host = ParseHostPort(server.listen)->host;
  const Reach reach = ReachOf(host);
  if (reach == Reach::kUnknown) Fail("{}: server.listen {}: \"{}\" is no IP address", where, server.listen, host);
  if (reach == Reach::kLoopback || !server.key_file.empty()) return;
  const bool excused = server.allow_unauthenticated && reach == Reach::kNetwork;
  if (excused) return;
  Fail(
      "{}: server.listen {} is reachable from other machines, and there are no API keys: quire keygen --api NAME "
      "--file "
      "F, and --api-key-file F (server.api_keys){}",
      where, server.listen,
      reach == Reach::kWildcard ? "; without keys it must at least be one address"
                                : ", or listen on 127.0.0.1 behind an authenticating proxy");
}

bool IsOrigin(const std::string& text) {
  const size_t scheme = text.starts_with("https://") ? 8 : text.starts_with("http://") ? 7 : 0;
  return scheme > 0 && text.size() > scheme && IsMadeOf(text.substr(scheme), ".:-[]");
}

void CheckBrowsers(const Topology::Listener& server, const std::string& where) {
  for (const std::string& origin : server.allowed_origins) {
    if (origin == "*" && server.key_file.empty())
      Fail("{}: allowed_origins \"*\" without API keys would let every web page use this server; name the origins",
           where);
    if (origin != "*" && !IsOrigin(origin))
      Fail("{}: allowed_origins: \"{}\" must be SCHEME://HOST[:PORT], as https://chat.example, or \"*\"", where,
           origin);
  }
  for (const std::string& host : server.allowed_hosts) {
    if (host.empty() || !IsMadeOf(host, ".-"))
      Fail("{}: allowed_hosts: \"{}\" must be a host name or an IPv4 address, without a port", where, host);
  }
}

void CheckAdmin(const Topology::Listener& admin, const std::string& where) {
  const std::string host = ParseHostPort(admin.listen)->host;
  const Reach reach = ReachOf(host);
  if (reach == Reach::kUnknown) Fail("{}: admin.listen {}: \"{}\" is no IP address", where, admin.listen, host);
  if (reach == Reach::kLoopback || !admin.key_file.empty()) return;
  Fail(
      "{}: admin.listen {} is reachable from other machines, and there is no token: quire keygen --admin --file F, and "
      "--admin-token-file F (admin.token)",
      where, admin.listen);
}

/// Throws Error for a wildcard address of the metrics port, and for text that is no IP address. Other addresses need no
/// key, because metrics show load, client names and hosts, but no texts.
void CheckMetrics(const Topology::Metrics& metrics, const std::string& where) {
  if (metrics.listen.empty()) return;
  const std::string host = ParseHostPort(metrics.listen)->host;
  const Reach reach = ReachOf(host);
  if (reach == Reach::kUnknown) Fail("{}: metrics.listen {}: \"{}\" is no IP address", where, metrics.listen, host);
  if (reach == Reach::kWildcard) {
    Fail("{}: metrics.listen {} would listen on every interface; give the one address that the collector asks", where,
         metrics.listen);
  }
}

/// Throws Error when other machines could read cache events and allow_unauthenticated is not set: the events show the
/// tokens of prompts, and ZeroMQ serves all clients that connect.
void CheckKvEvents(const Topology::KvEvents& events, const std::string& where) {
  if (!events.enabled || events.allow_unauthenticated) return;
  const auto check = [&](const char* key, const std::string& endpoint) {
    if (!endpoint.starts_with("tcp://")) return;
    if (ReachOf(ParseHostPort(endpoint.substr(6))->host) == Reach::kLoopback) return;
    Fail(
        "{}: kv_events.{} {} shows the tokens of prompts to everybody who reaches it; listen on 127.0.0.1, or keep the "
        "port to the router by a network policy and say so: allow_unauthenticated: true (in kv_events, or in "
        "--kv-events-config)",
        where, key, endpoint);
  };
  if (events.binds()) check("endpoint", events.endpoint);
  if (!events.replay_endpoint.empty()) check("replay_endpoint", events.replay_endpoint);
}

}  // namespace

Reach ReachOf(const std::string& address) {
  if (address == "localhost") return Reach::kLoopback;
  in_addr v4{};
  if (::inet_pton(AF_INET, address.c_str(), &v4) == 1) return ReachOfV4(ntohl(v4.s_addr));
  Bytes6 v6{};
  if (::inet_pton(AF_INET6, address.c_str(), v6.data()) == 1) return ReachOfV6(v6);
  return Reach::kUnknown;
}

void CheckExposure(const Topology& topology, const std::string& where) {
  CheckTransport(topology.transport, where);
  CheckServer(topology.server, where);
  CheckBrowsers(topology.server, where);
  CheckAdmin(topology.admin, where);
  CheckMetrics(topology.metrics, where);
  CheckKvEvents(topology.kv_events, where);
}

bool HasSecrets(const Topology& t) {
  return !t.transport.keys.empty() || !t.server.key_file.empty() || !t.admin.key_file.empty() ||
         !t.server.key.empty() || !t.admin.key.empty();
}

std::vector<std::string> ExposureWarnings(const Topology& t) {
  std::vector<std::string> warnings;
  if (t.server.allow_unauthenticated && t.server.key_file.empty())
    warnings.push_back("server.allow_unauthenticated: anybody who reaches " + t.server.listen + " is served");
  if (t.metrics.on_data_port && ReachOf(ParseHostPort(t.server.listen)->host) != Reach::kLoopback)
    warnings.push_back("metrics.on_data_port: anybody who reaches " + t.server.listen +
                       " sees load, names of keys and hosts at /metrics, without a key");
  if (t.kv_events.enabled && t.kv_events.allow_unauthenticated)
    warnings.push_back("kv_events.allow_unauthenticated: anybody who reaches " + t.kv_events.endpoint +
                       " sees the tokens of prompts");
  const bool reachable = !t.transport.bind.empty() && ReachOf(t.transport.bind) == Reach::kNetwork;
  if (t.transport.insecure && t.transport.keys.empty() && reachable) {
    warnings.push_back("transport.insecure: anybody who reaches " + t.transport.bind +
                       " can read and send what workers and coordinator say to each other");
  }
  if (!t.transport.bind.empty() && ReachOf(t.transport.bind) == Reach::kLoopback && t.transport.keys.empty() &&
      !t.transport.insecure) {
    warnings.push_back("transport.bind " + t.transport.bind +
                       " without keys: every user of this host can join as a worker, or read what workers are told; "
                       "quire keygen --transport DIR --ranks N, and transport.keys: DIR (or transport.insecure: true)");
  }
  return warnings;
}

}  // namespace quire
