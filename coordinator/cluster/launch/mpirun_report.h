#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "comm/base/types.h"

namespace quire {

/// What mpirun says about who ended its job, found in its words: its exit status does not tell. Lines come on one
/// thread, the question on another.
class MpirunReport {
 public:
  struct Culprit {
    Rank rank = -1;    // -1: a whole host
    std::string host;  // as mpirun calls it; empty: it did not say
    std::string how;   // "was killed by signal 9", "exited with status 3", "lost its connection"
  };

  void AddLine(const std::string& line);
  /// The first one named.
  std::optional<Culprit> culprit() const;

 private:
  mutable std::mutex mutex_;
  std::optional<Culprit> culprit_;
  Rank exited_ = -1;          // named in the line before its status
  bool lost_daemon_ = false;  // the lines that follow name it
};

}  // namespace quire
