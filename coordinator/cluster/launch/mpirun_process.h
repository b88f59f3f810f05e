#pragma once

#include <string>
#include <vector>

#include "coordinator/cluster/launch/child_process.h"
#include "coordinator/cluster/launch/mpirun_report.h"

namespace quire {

/// A running mpirun, and what its output says about ranks.
struct MpirunProcess {
  explicit MpirunProcess(const std::vector<std::string>& command)
      : process(command, [this](const std::string& line) { report.AddLine(line); }) {}
  MpirunReport report;
  ChildProcess process;
};

}  // namespace quire
