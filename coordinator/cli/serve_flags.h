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

/// The command line of a server as typed. The topology's schema gives the flags their meaning
/// (comm/topology/topology_reader.cc): a flag is another spelling of one key, and --set takes any key.
struct ServeFlags {
  std::string topology_file, host;  // empty: not given
  std::optional<int> port, admin_port;
  std::vector<std::pair<std::string, std::string>> given;  // flag ("--block-size") and its text
  std::vector<std::string> set;                            // KEY=VALUE
  bool fetch = false;     // first fetch an ORG/NAME that the Hugging Face cache lacks; no setting of the server
  std::string model_dir;  // whose models are served, loaded on request; empty: not given

  /// True when a model or topology file is named; some commands work without.
  bool NamesModel() const;
};

/// Declares the flags on a subcommand; parsing fills `flags`.
void AddServeFlags(CLI::App& app, ServeFlags& flags);

/// Returns the flags as overrides of topology keys, without host and ports, which are only parts of keys. Throws Error
/// that names the flag.
std::vector<SettingOverride> OverridesOf(const ServeFlags& flags);

}  // namespace quire
