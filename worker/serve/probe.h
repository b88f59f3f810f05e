#pragma once

#include <string>
#include <vector>

namespace quire {

/// The parts of a host that `quire check` wants to examine.
struct ProbeOptions {
  std::string interface;   // name or network; empty: not examined
  std::vector<int> ports;  // first and last port that MPI may listen on; empty: not examined
  std::string model;       // path; empty: not examined
  std::string keys;        // directory; empty: not examined
};

/// Prints facts about this host to standard output, one line "key value..." for each: version, host, interface,
/// busy_ports, shm, memory, memory_total, memory_limit, processors, devices, model, keys. Does not print what was not
/// examined. If a fact cannot be found, its value is the reason. Returns exit status 0 in any case.
int RunProbe(const ProbeOptions& options);

}  // namespace quire
