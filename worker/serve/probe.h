#pragma once

#include <string>
#include <vector>

namespace quire {

/// What `quire check` asks of a node.
struct ProbeOptions {
  std::string interface;   // name or network; empty: not asked
  std::vector<int> ports;  // first and last that MPI may listen on; empty: not asked
  std::string model;       // path; empty: not asked
  std::string keys;        // directory; empty: not asked
};

/// Says on standard output what this host has, a line "key value..." each: version, host, interface, ports, shm,
/// memory, memory_total, memory_limit, processors, devices, model, keys. What is missing is said in the value; the exit
/// status is 0 all the same.
int RunProbe(const ProbeOptions& options);

}  // namespace quire
