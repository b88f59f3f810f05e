#pragma once

namespace quire {

/// Use of processors and memory by this process and by its host, as Linux counts it. Zeros where it cannot be
/// read.
struct HostUsage {
  double process_seconds = 0;                      // processor time of this process, of all its threads
  double resident_bytes = 0;                       // of this process
  double host_busy_seconds = 0, host_seconds = 0;  // processor time since the host's start: what was used, and all
  double host_used_bytes = 0, host_bytes = 0;      // memory: what programs cannot have any more, and all
};
HostUsage ReadHostUsage();

/// Processor time of this process, of all its threads, in seconds.
double UsedProcessorSeconds();

}  // namespace quire
