#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/topology/topology.h"

namespace CLI {
class App;
}

namespace quire {

/// What the command line says about a server, as it was typed. What it means is the topology's schema alone
/// (comm/topology/topology_reader.cc): a flag is another way to say one key, and --set says any.
struct ServeFlags {
  std::string topology_file, host;  // empty: not given
  std::optional<int> port, admin_port;
  std::vector<std::pair<std::string, std::string>> given;  // flag ("--block-size") and its value
  std::vector<std::string> set;                            // KEY=VALUE

  /// Whether there is a model to serve; commands that can do without ask.
  bool NamesModel() const;
};

/// Declares the flags on a subcommand, which fills `flags` when it is parsed.
void AddServeFlags(CLI::App& app, ServeFlags& flags);

/// What the flags put in the place of the topology file's keys, but for host and ports, which are parts of one. Throws
/// Error that names the flag.
std::vector<SettingOverride> OverridesOf(const ServeFlags& flags);

}  // namespace quire
