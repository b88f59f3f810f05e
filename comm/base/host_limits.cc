#include "comm/base/host_limits.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <fstream>

#include "comm/base/control_groups.h"

namespace quire {

namespace {

/// The names of a control group's memory files in one version of the control-group interface.
struct MemoryFiles {
  std::vector<const char*> limits;  // memory.high counts, because it throttles a group to a standstill
  const char* usage;
  std::vector<std::string> reclaimable;  // memory.stat's keys for the page cache of the group and its children
};

const std::vector<MemoryFiles>& AllMemoryFiles() {
  static const std::vector<MemoryFiles> all = {
      {{"memory.max", "memory.high"}, "memory.current", {"inactive_file", "active_file"}},
      {{"memory.limit_in_bytes"}, "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}},
  };
  return all;
}

void TakeLess(MemoryRoom& room, int64_t total, const std::string& limited_by) {
  if (total >= room.total) return;
  room.total = total;
  room.limited_by = limited_by;
}

void TakeMachine(MemoryRoom& room, const std::string& root) {
  std::ifstream meminfo(root + "/proc/meminfo");
  for (std::string key, unit; meminfo >> key;) {
    int64_t kilobytes = 0;
    meminfo >> kilobytes;
    std::getline(meminfo, unit);
    if (key == "MemTotal:") TakeLess(room, kilobytes * 1024, "the machine");
    if (key == "MemAvailable:") room.available = std::min(room.available, kilobytes * 1024);
  }
}

/// Applies one limit of a control group: lowers room.total to the limit, and room.available to the bytes that are left
/// below the limit. Page cache counts as free.
void TakeLimit(MemoryRoom& room, const ControlGroup& group, const MemoryFiles& files, int64_t limit,
               const char* source) {
  if (limit < 0) return;  // negative: no limit (v1)
  TakeLess(room, limit, fmt::format("control group {} ({})", group.name, source));
  const int64_t used = NumberInFile(fmt::format("{}/{}", group.folder, files.usage)).value_or(0);
  const int64_t reclaimable = SumInFile(group.folder + "/memory.stat", files.reclaimable).value_or(0);
  const int64_t left = limit - std::max<int64_t>(0, used - reclaimable);
  room.available = std::min(room.available, std::max<int64_t>(0, left));
}

void TakeGroup(MemoryRoom& room, const ControlGroup& group) {
  for (const MemoryFiles& files : AllMemoryFiles()) {
    for (const char* name : files.limits) {
      const auto limit = NumberInFile(fmt::format("{}/{}", group.folder, name));
      if (limit) TakeLimit(room, group, files, *limit, name);
    }
  }
  // In cgroup v1 a container possibly does not see the groups above its own. The key kOfAncestors in the files of a
  // group gives the smallest limit of this group and of all groups above it.
  constexpr const char* kOfAncestors = "hierarchical_memory_limit";
  if (const auto limit = SumInFile(group.folder + "/memory.stat", {kOfAncestors}))
    TakeLimit(room, group, AllMemoryFiles()[1], *limit, kOfAncestors);
}

struct Quota {
  double processors;   // processor time that a group may use in a period, divided by the period
  const char* source;  // name of the file that has this quota
};

std::optional<Quota> QuotaOf(const ControlGroup& group) {
  int64_t quota = 0, period = 0;
  const char* source = "cpu.max";
  if (std::ifstream file(group.folder + "/cpu.max"); !(file >> quota >> period)) {  // "max" is not a number: no quota
    source = "cpu.cfs_quota_us";
    quota = NumberInFile(group.folder + "/cpu.cfs_quota_us").value_or(-1);
    period = NumberInFile(group.folder + "/cpu.cfs_period_us").value_or(0);
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  return Quota{static_cast<double>(quota) / static_cast<double>(period), source};
}

}  // namespace

MemoryRoom ReadMemoryRoom(const std::string& root) {
  MemoryRoom room{.limited_by = "the machine"};
  TakeMachine(room, root);
  for (const ControlGroup& group : ControlGroupsOf("memory", root)) TakeGroup(room, group);
  room.available = std::min(room.available, room.total);
  return room;
}

ProcessorRoom ReadProcessorRoom(int allowed, const std::string& root) {
  ProcessorRoom room{std::max(1, allowed), "CPU affinity"};
  for (const ControlGroup& group : ControlGroupsOf("cpu", root)) {
    const std::optional<Quota> quota = QuotaOf(group);
    if (!quota || quota->processors >= room.count) continue;
    room = {std::max(1, static_cast<int>(quota->processors)),
            fmt::format("control group {} ({})", group.name, quota->source)};
  }
  return room;
}

std::vector<int> AllowedProcessors() {
  std::vector<cpu_set_t> sets(16);  // room for more processors than one cpu_set_t has (1,024)
  const size_t bytes = sets.size() * sizeof(cpu_set_t);
  std::vector<int> processors;
  if (::sched_getaffinity(0, bytes, sets.data()) != 0) return processors;
  for (size_t i = 0; i < bytes * 8; ++i)
    if (CPU_ISSET_S(i, bytes, sets.data())) processors.push_back(static_cast<int>(i));
  return processors;
}

ProcessorRoom OwnProcessorRoom() { return ReadProcessorRoom(static_cast<int>(AllowedProcessors().size())); }

}  // namespace quire
