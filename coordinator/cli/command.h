#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "comm/base/error.h"
#include "coordinator/cli/options.h"
#include "coordinator/log/log.h"

namespace quire {

/// A subcommand of the program. `check` validates the settings before `run` does the work, because bad settings have
/// their own exit status.
struct Subcommand {
  CLI::App* app = nullptr;
  std::function<void()> check = [] {};
  std::function<int()> run;
};

/// The settings of a command that takes the server's flags.
struct ServerCommand {
  ServeFlags flags;
  Topology topology;
  void Check() {
    SetUpLog(LogLevel::kInfo);
    topology = TopologyFromFlags(flags);
    SetLogLevel(topology.logs.level);
    SetLogFormat(topology.logs.format);
  }
  /// Checks the settings of a command for one model. Throws Error when the settings list several models.
  void CheckOneModel() {
    Check();
    if (NumModels(topology) > 1) Fail("this command takes one model; give --model PATH");
    topology = ModelTopology(topology, 0);
  }
};

}  // namespace quire
