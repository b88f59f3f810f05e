#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire {

/// Memory that this process and its children may hold, in bytes. The limit is the machine's memory or, if it is
/// smaller, the smallest limit of the control groups (v1 or v2) from this process's own group up to the root.
struct MemoryRoom {
  int64_t total = INT64_MAX;      // the least limit
  int64_t available = INT64_MAX;  // bytes left below the tightest limit; page cache counts as free
  std::string limited_by;         // the owner of the limit `total`: "the machine", or "control group /a/b (memory.max)"
};

/// The processors that threads of this process can keep busy at the same time.
struct ProcessorRoom {
  int count = 1;           // number of processors, at least 1; a quota of 2.5 counts as 2
  std::string limited_by;  // the owner of the limit: "the machine", "CPU affinity", or "control group /a (cpu.max)"
};

/// Reads /proc/meminfo, /proc/self/cgroup, /proc/self/mountinfo and the control groups' files. A file that is missing
/// or cannot be read limits nothing. Tests set `root`, which is put before each of these paths.
MemoryRoom ReadMemoryRoom(const std::string& root = "");

/// `allowed` is the number of processors that the scheduler lets this process use. Returns the smaller of `allowed` and
/// the smallest CPU quota of the control groups. Tests set `root`, which is put before each path.
ProcessorRoom ReadProcessorRoom(int allowed, const std::string& root = "");

/// Returns the numbers of the processors that sched_getaffinity lets this thread use, in ascending order; cpusets and
/// taskset limit these processors.
std::vector<int> AllowedProcessors();

/// Reads the control groups of this process and the affinity of the calling thread, and returns how many processors
/// they allow now.
ProcessorRoom OwnProcessorRoom();

}  // namespace quire
