#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quire {

/// A control group that contains this process: its own group, or an ancestor of it.
struct ControlGroup {
  std::string folder;  // the folder of the group's files
  std::string name;    // the group's path in /proc/self/cgroup: "/system.slice/quire.service"
};

/// Returns the groups of `controller` ("memory", "cpu") that contain this process, the innermost first. Looks in the
/// hierarchies of v1 and v2 that /proc/self/mountinfo names, and in the usual folders below /sys/fs/cgroup. In a
/// container, some of the groups may not be visible. Tests set `root`, which is put before every path.
std::vector<ControlGroup> ControlGroupsOf(const std::string& controller, const std::string& root);

/// Returns the number at the beginning of a file of one line; nullopt when the file has none ("max") or does not exist.
std::optional<int64_t> NumberInFile(const std::string& path);

/// Returns the sum of the values of `keys` in a file of lines "key value"; nullopt when the file has none of the keys.
std::optional<int64_t> SumInFile(const std::string& path, const std::vector<std::string>& keys);

}  // namespace quire
