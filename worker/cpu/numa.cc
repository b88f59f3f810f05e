#include "worker/cpu/numa.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "comm/base/host_limits.h"

namespace quire {

namespace {

bool ParseInt(std::string_view text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// Parses a list such as "0-3,8,10-11"; stops at the first malformed part.
std::vector<int> ParseProcessors(std::string_view list) {
  constexpr int kMost = 1 << 16;
  std::vector<int> processors;
  while (!list.empty()) {
    const std::string_view part = list.substr(0, list.find(','));
    const size_t dash = part.find('-');
    int first = 0, last = 0;
    if (!ParseInt(part.substr(0, dash), first) || first < 0) break;
    last = first;
    if (dash != part.npos && (!ParseInt(part.substr(dash + 1), last) || last > kMost)) break;
    for (int processor = first; processor <= last; ++processor) processors.push_back(processor);
    list.remove_prefix(std::min(list.size(), part.size() + 1));
  }
  return processors;
}

/// A set of processors that is large enough for any operating system's kernel; a single cpu_set_t ends at 1,024
/// processors.
struct ProcessorSet {
  std::vector<cpu_set_t> sets = std::vector<cpu_set_t>(16);

  size_t bytes() const { return sets.size() * sizeof(cpu_set_t); }
};

}  // namespace

std::vector<NumaNode> ReadNumaNodes(const std::string& devices, const std::vector<int>& allowed) {
  constexpr std::string_view kPrefix = "node";
  std::vector<NumaNode> nodes;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(devices, ignored)) {
    const std::string name = entry.path().filename();
    int number = 0;
    if (!name.starts_with(kPrefix) || !ParseInt(std::string_view(name).substr(kPrefix.size()), number)) continue;
    std::ifstream file(entry.path() / "cpulist");
    std::string list;
    std::getline(file, list);
    NumaNode node{number, {}};
    std::ranges::set_intersection(ParseProcessors(list), allowed, std::back_inserter(node.processors));
    if (!node.processors.empty()) nodes.push_back(std::move(node));
  }
  std::ranges::sort(nodes, {}, &NumaNode::number);
  return nodes;
}

std::vector<NumaNode> NodesOfRank(const std::vector<NumaNode>& nodes, int rank, int ranks) {
  const int count = static_cast<int>(nodes.size());
  if (count < 2 || ranks < 2) return {};
  if (ranks % count == 0) return {nodes[static_cast<size_t>(rank / (ranks / count))]};
  if (count % ranks != 0) return {};
  const int each = count / ranks;
  return {nodes.begin() + rank * each, nodes.begin() + (rank + 1) * each};
}

std::string KeepToNumaNodes(int rank, int ranks, const std::string& devices) {
  const std::vector<NumaNode> nodes = NodesOfRank(ReadNumaNodes(devices, AllowedProcessors()), rank, ranks);
  if (nodes.empty()) return "";
  ProcessorSet set;
  std::vector<int> numbers;
  int processors = 0;
  for (const NumaNode& node : nodes) {
    numbers.push_back(node.number);
    for (const int processor : node.processors) {
      CPU_SET_S(static_cast<size_t>(processor), set.bytes(), set.sets.data());
      ++processors;
    }
  }
  const std::string where = fmt::format("NUMA node{} {}", numbers.size() == 1 ? "" : "s", fmt::join(numbers, ", "));
  if (::sched_setaffinity(0, set.bytes(), set.sets.data()) != 0)
    return fmt::format("could not keep to {}: {}", where, std::strerror(errno));
  return fmt::format("keeps to {}, {} processors", where, processors);
}

}  // namespace quire
