#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/topology/topology.h"
#include "coordinator/api/access/authenticate.h"
#include "coordinator/http/tls.h"

namespace quire {

/// The gates (access checks) and TLS certificates of the ports, as the topology configures them. SIGHUP makes them
/// reread their files; an invalid file changes nothing and is logged. Destroy this object before the io_context.
class Gates {
 public:
  /// Reads the key files and certificates. Throws Error when a file is invalid, or when one key opens both ports.
  explicit Gates(const Topology& topology);

  /// Starts to listen for SIGHUP, which has no effect on gates without keys. Calls `also` after each signal. Now and
  /// after each reload, logs a warning for limits (server.key_limits) under names that no key has.
  void ReloadOnSignal(boost::asio::io_context& io, std::function<void()> also);

  /// Remembers new limits of single keys, and warns of names that no key has.
  void NoteKeyLimits(const std::map<std::string, Topology::KeyLimits>& limits);

  Gate data, admin, metrics;
  std::unique_ptr<TlsCertificate> data_certificate, admin_certificate;  // null: no TLS on that port

 private:
  void AwaitSignal();
  void KeepLimitedKeys(const std::map<std::string, Topology::KeyLimits>& all);
  void WarnOfLimitsWithoutKey() const;

  std::optional<boost::asio::signal_set> signal_;
  std::function<void()> also_;
  std::vector<std::string> limited_keys_;  // names in server.key_limits, without "default"
};

/// Reads every key file and certificate that the topology names, before anything else starts. Throws Error for an
/// invalid file.
void CheckKeyFiles(const Topology& topology);

}  // namespace quire
