#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <optional>

#include "comm/topology.h"
#include "coordinator/api/authenticate.h"

namespace quire {

/// The gates of both ports as the topology wants them. On SIGHUP their key files are read again; a bad one changes
/// nothing and is logged. Must be gone before the io_context is.
class Gates {
 public:
  /// Throws Error when a key file is not as it must be, or a key opens both ports.
  explicit Gates(const Topology& topology);

  /// Begins to listen for SIGHUP, which changes nothing where there are no keys.
  void ReloadOnSignal(boost::asio::io_context& io);

  Gate data, admin;

 private:
  void AwaitSignal();
  std::optional<boost::asio::signal_set> signal_;
};

/// Reads every key file that the topology names, and throws Error when one is not as it must be: before anything starts.
void CheckKeyFiles(const Topology& topology);

}  // namespace quire
