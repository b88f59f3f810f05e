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
#include "coordinator/api/http/tls.h"

namespace quire {

/// The gates and certificates of the ports as the topology wants them. On SIGHUP their files are read again; a bad one
/// changes nothing and is logged. Must be gone before the io_context is.
class Gates {
 public:
  /// Throws Error when a key file is not as it must be, or a key opens both ports.
  explicit Gates(const Topology& topology);

  /// Begins to listen for SIGHUP, which changes nothing where there are no keys; `also` is called after each. Now and
  /// then a warning names the limits (server.key_limits) of keys that there are not.
  void ReloadOnSignal(boost::asio::io_context& io, std::function<void()> also);

  /// The limits of single keys are others now.
  void NoteKeyLimits(const std::map<std::string, Topology::KeyLimits>& limits);

  Gate data, admin, metrics;
  std::unique_ptr<TlsCertificate> data_certificate, admin_certificate;  // null: clear text

 private:
  void AwaitSignal();
  void KeepLimitedKeys(const std::map<std::string, Topology::KeyLimits>& all);
  void WarnOfLimitsWithoutKey() const;

  std::optional<boost::asio::signal_set> signal_;
  std::function<void()> also_;
  std::vector<std::string> limited_keys_;  // names in server.key_limits, but for "default"
};

/// Reads every key file that the topology names, and throws Error when one is not as it must be: before anything
/// starts.
void CheckKeyFiles(const Topology& topology);

}  // namespace quire
