#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "comm/base/types.h"

namespace quire {

/// Finds in mpirun's output which rank or host ended the job, because mpirun's exit status does not tell it. One thread
/// adds lines, and another thread reads the result.
class MpirunReport {
 public:
  struct Culprit {
    Rank rank = -1;    // -1: a whole host
    std::string host;  // the host's name in mpirun's output; empty: unknown
    std::string how;   // "was killed by signal 9", "exited with status 3", "lost its connection"
  };

  void AddLine(const std::string& line);
  /// Returns the first culprit that the output named; nullopt when it named none.
  std::optional<Culprit> culprit() const;

 private:
  mutable std::mutex mutex_;
  std::optional<Culprit> culprit_;
  Rank exited_ = -1;          // rank in the line before the exit status
  bool lost_daemon_ = false;  // the next lines name the lost daemon
};

}  // namespace quire
