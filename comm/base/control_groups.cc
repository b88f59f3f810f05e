#include "comm/base/control_groups.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

namespace quire {

namespace {

/// A mounted hierarchy of control groups.
struct Hierarchy {
  std::string mount_point;  // the mount point's path; the tests' root folder is removed from its beginning
  std::string shown_from;   // path of the control group whose files are in the folder mount_point
  bool v2 = false;
};

/// The paths of this process's control group in v2's hierarchy, and in v1's hierarchy of one controller. nullopt: the
/// process has no group in that hierarchy.
struct Membership {
  std::optional<std::string> v1, v2;
};

bool HasWord(const std::string& list, const std::string& word) {
  std::istringstream words(list);
  for (std::string found; std::getline(words, found, ',');)
    if (found == word) return true;
  return false;
}

Membership ReadMembership(const std::string& controller, const std::string& root) {
  Membership membership;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) {
      membership.v2 = path;
    } else if (HasWord(controllers, controller)) {
      membership.v1 = path;
    }
  }
  return membership;
}

/// Replaces the kernel's escapes for spaces (\040) and other characters by these characters.
std::string WithoutEscapes(const std::string& text) {
  std::string plain;
  const auto octal = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '7'; };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::vector<Hierarchy> ReadHierarchies(const std::string& controller, const std::string& root) {
  std::vector<Hierarchy> found;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == line.npos) continue;
    std::istringstream mount(line.substr(0, dash)), kind(line.substr(dash + 3));
    std::string id, parent, device, shown_from, mount_point, type, source, options;
    mount >> id >> parent >> device >> shown_from >> mount_point;
    kind >> type >> source >> options;
    const bool v2 = type == "cgroup2";
    if (v2 || (type == "cgroup" && HasWord(options, controller)))
      found.push_back({WithoutEscapes(mount_point), WithoutEscapes(shown_from), v2});
  }
  found.push_back({"/sys/fs/cgroup", "/", true});
  for (const std::string& name : {controller, std::string("cpu,cpuacct")})
    if (HasWord(name, controller)) found.push_back({"/sys/fs/cgroup/" + name, "/", false});
  return found;
}

/// Returns the path of `group` below the mount point: "" or "/a/b". The mount point shows the group `shown_from`. A
/// group that the mount does not show counts as the group at the mount point.
std::string BelowMount(const std::string& group, const std::string& shown_from) {
  if (("/" + group + "/").find("/../") != std::string::npos || group == "/") return "";
  if (shown_from == "/") return group;
  if (group == shown_from) return "";
  return group.starts_with(shown_from + "/") ? group.substr(shown_from.size()) : "";
}

}  // namespace

std::vector<ControlGroup> ControlGroupsOf(const std::string& controller, const std::string& root) {
  const Membership membership = ReadMembership(controller, root);
  std::vector<ControlGroup> groups;
  for (const Hierarchy& hierarchy : ReadHierarchies(controller, root)) {
    const std::string group = (hierarchy.v2 ? membership.v2 : membership.v1).value_or("/");
    const std::string top = hierarchy.shown_from == "/" ? "" : hierarchy.shown_from;
    for (std::string below = BelowMount(group, hierarchy.shown_from);; below.erase(below.rfind('/'))) {
      const std::string folder = root + hierarchy.mount_point + below, name = top + below;
      if (std::ranges::find(groups, folder, &ControlGroup::folder) == groups.end())
        groups.push_back({folder, name.empty() ? "/" : name});
      if (below.find('/') == below.npos) break;
    }
  }
  return groups;
}

std::optional<int64_t> NumberInFile(const std::string& path) {
  int64_t value = 0;
  std::ifstream file(path);
  return file >> value ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> SumInFile(const std::string& path, const std::vector<std::string>& keys) {
  std::optional<int64_t> sum;
  std::ifstream file(path);
  int64_t value = 0;
  for (std::string key; file >> key >> value;)
    if (std::ranges::find(keys, key) != keys.end()) sum = sum.value_or(0) + value;
  return sum;
}

}  // namespace quire
