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
  std::vector<std::pair<std::string, std::string>> given;  // flag ("--block-size") and the text of its value
  std::vector<std::string> set;                            // KEY=VALUE
  bool fetch = false;     // fetches an ORG/NAME that the Hugging Face cache lacks first; not a setting of the server
  std::string model_dir;  // the server's models are those in this directory, loaded on request; empty: not given

  /// True when the command line names a model, a directory of models or a topology file. Some commands work without any
  /// of them.
  bool NamesModel() const;
};

/// Declares the flags on a subcommand; parsing fills `flags`.
void AddServeFlags(CLI::App& app, ServeFlags& flags);

/// Returns the flags as overrides of topology keys, except the host and the ports, which are only parts of keys. Throws
/// Error, which names the flag.
std::vector<SettingOverride> OverridesOf(const ServeFlags& flags);

}  // namespace quire
