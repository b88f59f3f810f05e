#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "coordinator/cli/options.h"
#include "coordinator/log/log.h"

namespace quire {

/// A subcommand: what it was told, and what it does. Settings are checked apart from the work, because they end with
/// another status.
struct Subcommand {
  CLI::App* app = nullptr;
  std::function<void()> check = [] {};
  std::function<int()> run;
};

/// A command that takes the flags of a server.
struct ServerCommand {
  ServeFlags flags;
  Topology topology;
  void Check() {
    SetUpLog(LogLevel::kInfo);
    topology = TopologyFromFlags(flags);
    SetLogLevel(topology.logs.level);
  }
};

}  // namespace quire
