#include "coordinator/cluster/launch/silent_hosts.h"

#include <algorithm>
#include <chrono>
#include <future>

namespace quire {

namespace {

constexpr std::chrono::milliseconds kSilence(600);  // two heartbeats did not come

}  // namespace

std::vector<std::string> SilentHosts(const std::vector<Topology::Node>& nodes, const std::vector<NodeRanks>& placement,
                                     const std::vector<RankInfo>& ranks,
                                     const std::function<bool(const std::string& host)>& answers) {
  if (ranks.empty()) return {};
  const auto latest = std::ranges::max(ranks, {}, &RankInfo::last_beat).last_beat;
  std::vector<std::string> suspects;
  for (const NodeRanks& on_node : placement) {
    bool silent = true;
    for (Rank rank = on_node.first; rank < on_node.first + on_node.count; ++rank) {
      const bool known = rank < static_cast<Rank>(ranks.size());
      silent = silent && known && ranks[static_cast<size_t>(rank)].last_beat + kSilence < latest;
    }
    if (silent) suspects.push_back(nodes[on_node.node].host);
  }
  std::vector<std::future<bool>> asked;
  for (const std::string& host : suspects) asked.push_back(std::async(std::launch::async, answers, host));
  std::vector<std::string> gone;
  for (size_t i = 0; i < suspects.size(); ++i) {
    if (!asked[i].get()) gone.push_back(suspects[i]);
  }
  return gone;
}

}  // namespace quire
