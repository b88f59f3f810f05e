#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>

#include "comm/topology/topology.h"
#include "coordinator/api/admin/admin_control.h"

namespace quire {

/// The operator's settings, topology file and flags, which SIGHUP has read again. One thread: the I/O thread.
class SettingsFile {
 public:
  /// `read` returns the settings as they are now, validated; throws Error.
  explicit SettingsFile(std::function<Topology()> read) : read_(std::move(read)), last_(read_()) {}

  /// Reads anew. Keys that can change while the server runs, and that differ from the last reading, take effect, also
  /// over what an operator changed meanwhile. Other keys that differ wait for a restart, and a warning says so.
  /// Settings with a mistake change nothing, and an error says so. Without `control`, before the server is ready,
  /// nothing is read.
  void Follow(boost::asio::io_context& io, AdminControl* control);

 private:
  const std::function<Topology()> read_;
  Topology last_;
};

}  // namespace quire
