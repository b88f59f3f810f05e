#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>

#include "comm/topology/topology.h"
#include "coordinator/api/admin/admin_control.h"

namespace quire {

/// The operator's settings (topology file and flags), which are read again on SIGHUP. Only the I/O thread may use this
/// object.
class SettingsFile {
 public:
  /// `read` reads and validates the settings, and throws Error for a mistake.
  explicit SettingsFile(std::function<Topology()> read) : read_(std::move(read)), last_(read_()) {}

  /// Reads the settings again. Keys that can change while the server runs, and that differ from the last reading, take
  /// effect. They replace changes that an operator has made over the admin port. Logs a warning for other keys that
  /// differ, because they need a restart. If the settings have a mistake, nothing changes, and the error is logged.
  /// Reads nothing while `control` is null, before the server is ready.
  void Follow(boost::asio::io_context& io, AdminControl* control);

 private:
  const std::function<Topology()> read_;
  Topology last_;
};

}  // namespace quire
