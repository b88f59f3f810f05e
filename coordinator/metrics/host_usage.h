#pragma once

namespace quire {

/// Use of processors and memory by this process and by its host, as Linux counts it. A number that cannot be read is 0.
struct HostUsage {
  double process_seconds = 0;                      // processor time of this process, of all its threads
  double resident_bytes = 0;                       // resident memory of this process
  double host_busy_seconds = 0, host_seconds = 0;  // processor time since the host's start: used, and in all
  double host_used_bytes = 0, host_bytes = 0;      // memory: no longer available to programs, and in all
};
HostUsage ReadHostUsage();

/// Returns the processor time of this process, of all its threads, in seconds.
double UsedProcessorSeconds();

}  // namespace quire
