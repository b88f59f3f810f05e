#include "coordinator/cluster/hosts/model_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "comm/base/error.h"

namespace quire {

namespace {

constexpr int64_t kLeastTokens = 1024;  // a model gets KV memory for a sequence of this length, or of its longest

std::string Mib(int64_t bytes) { return fmt::format("{:.0f} MiB", static_cast<double>(bytes) / (1 << 20)); }

}  // namespace

ModelNeed NeedOf(const MemoryPlan& plan, const Topology& topology, const ModelSpec& spec) {
  if (!plan.problem.empty()) Fail("model {}: {}", topology.model.name, plan.problem);
  ModelNeed need;
  need.name = topology.model.name;
  need.fixed = topology.cache.num_blocks > 0 || topology.cache.memory_bytes > 0;
  const int64_t tokens = std::min<int64_t>(plan.model_len, kLeastTokens);
  const int64_t sequence = BlocksOfSequence(spec, topology.cache.block_size, tokens) + plan.pools.state_blocks;
  const int64_t most = plan.pools.num_blocks;
  const int64_t least = need.fixed ? most : std::min<int64_t>(most, sequence + 1);
  const int64_t host_blocks = plan.pools.num_host_blocks > 0 ? plan.pools.num_host_blocks + 1 : 0;
  int64_t weights = 0, block = 0;
  for (const RankInfo& rank : plan.ranks) weights += rank.weight_bytes, block += rank.bytes_per_block;
  need.weights = topology.parallel.replicas * weights;
  need.block_bytes = topology.parallel.replicas * block;
  need.swap = host_blocks * need.block_bytes;
  need.kv_least = least * need.block_bytes;
  need.kv_most = most * need.block_bytes;
  return need;
}

std::vector<int64_t> ShareKv(int64_t room, const std::vector<ModelNeed>& needs) {
  int64_t least = 0;
  std::string sizes;
  for (const ModelNeed& need : needs) {
    least += need.With(need.kv_least);
    sizes += fmt::format("{}{} {}", sizes.empty() ? "" : ", ", need.name, Mib(need.With(need.kv_least)));
  }
  if (least > room) {
    Fail("the models need {} ({}), and {} are there for them; free memory, raise models_memory, or give the models "
         "weights of fewer bits (quantization)",
         Mib(least), sizes, Mib(room));
  }
  std::vector<size_t> order(needs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return needs[i].kv_most - needs[i].kv_least; });
  std::vector<int64_t> kv(needs.size(), 0);
  int64_t left = room - least, takers = std::ssize(needs);
  for (const size_t i : order) {
    const int64_t more = std::min(needs[i].kv_most - needs[i].kv_least, left / takers--);
    kv[i] = needs[i].kv_least + more;
    left -= more;
  }
  return kv;
}

int64_t RoomOfModels(const Topology& topology, int64_t free_bytes) {
  if (topology.models_memory_bytes > 0) return topology.models_memory_bytes;
  return static_cast<int64_t>(topology.cache.memory * static_cast<double>(free_bytes));
}

void SetKvShare(int64_t kv, const ModelNeed& need, Topology::Cache& cache) {
  constexpr int kOneForNull = 1;  // the null block, which holds no tokens
  if (need.fixed) return;
  cache.num_blocks = static_cast<int>(std::min<int64_t>(kv / need.block_bytes, INT32_MAX) - kOneForNull);
}

ListPlan PlanModels(const Topology& topology, const std::vector<const ModelFiles*>& files) {
  NodeAnswers nodes;
  ListPlan list;
  for (size_t i = 0; i < files.size(); ++i) {
    list.models.push_back(ModelTopology(topology, i));
    const MemoryPlan plan = PlanMemory(list.models[i], *files[i], 0, nodes);
    list.needs.push_back(NeedOf(plan, list.models[i], files[i]->spec()));
  }
  list.room = RoomOfModels(topology, nodes.Of(topology, "").memory);
  list.kv = ShareKv(list.room, list.needs);
  for (size_t i = 0; i < files.size(); ++i) SetKvShare(list.kv[i], list.needs[i], list.models[i].cache);
  return list;
}

}  // namespace quire
