#include "coordinator/cluster/hosts/model_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "comm/base/error.h"
#include "comm/topology/request_memory.h"
#include "coordinator/cluster/launch/host_fit.h"
#include "coordinator/cluster/launch/pool_sizing.h"

namespace quire {

namespace {

constexpr int64_t kLeastTokens = 1024;  // a model gets KV memory for min(this, its longest sequence) tokens, at least

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
  const int64_t whole =
      BlocksOfSequence(spec, topology.cache.block_size, ChooseModelLen(topology, spec)) + plan.pools.state_blocks;
  const int64_t host_blocks = plan.pools.num_host_blocks > 0 ? plan.pools.num_host_blocks + 1 : 0;
  int64_t weights = 0, block = 0, working = 0;
  for (const RankInfo& rank : plan.ranks) {
    weights += rank.weight_bytes;
    block += rank.bytes_per_block;
    working += rank.working.total();
  }
  need.weights = topology.parallel.replicas * weights;
  need.working = topology.parallel.replicas * working;
  need.block_bytes = topology.parallel.replicas * block;
  need.swap = host_blocks * need.block_bytes;
  need.kv_least = least * need.block_bytes;
  need.kv_most = most * need.block_bytes;
  need.kv_whole = std::clamp(whole + 1, least, most) * need.block_bytes;
  need.on_request = topology.life.load == LoadMoment::kRequest;
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

namespace {

int64_t SumWithWhole(const std::vector<ModelNeed>& needs) {
  int64_t sum = 0;
  for (const ModelNeed& need : needs) sum += need.With(need.kv_whole);
  return sum;
}

/// Returns the KV memory, in bytes, of a model that takes turns with other models: not all of them are loaded at the
/// same time. `room`: bytes that the workers take together, for all models.
int64_t KvOfTurn(int64_t room, const ModelNeed& need) {
  const int64_t beside = room - need.With(0);
  if (beside < need.kv_least) {
    Fail("model {} needs {}, and {} are there for all models; free memory, raise models_memory, or give it weights of "
         "fewer bits (quantization)",
         need.name, Mib(need.With(need.kv_least)), Mib(room));
  }
  const int64_t wanted = std::max(room / 2 - need.With(0), need.kv_whole);
  return std::min(beside, std::clamp(wanted, need.kv_least, need.kv_most));
}

}  // namespace

std::vector<int64_t> ShareKvInTurns(int64_t room, const std::vector<ModelNeed>& needs, bool& at_once) {
  at_once = SumWithWhole(needs) <= room;
  std::vector<ModelNeed> raised = needs, of_start;
  for (ModelNeed& need : raised) need.kv_least = need.kv_whole;
  if (at_once) return ShareKv(room, raised);
  for (const ModelNeed& need : needs) {
    if (!need.on_request) of_start.push_back(need);
  }
  const std::vector<int64_t> at_start = ShareKv(room, of_start);
  std::vector<int64_t> kv;
  size_t started = 0;
  for (const ModelNeed& need : needs) {
    const int64_t of_turn = KvOfTurn(room, need);
    kv.push_back(need.on_request ? of_turn : std::min(of_turn, at_start[started++]));
  }
  return kv;
}

namespace {

PlannedLimits LimitsOf(const Topology& topology, const ModelSpec& spec, const MemoryPlan& plan, bool fixed) {
  const int usable = fixed ? plan.usable_blocks() : topology.cache.num_blocks;
  const int64_t tokens = int64_t{usable - plan.pools.state_blocks} * topology.cache.block_size;
  return {FittingModelLen(ChooseModelLen(topology, spec), spec, tokens), usable};
}

}  // namespace

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
  std::vector<MemoryPlan> plans;
  for (size_t i = 0; i < files.size(); ++i) {
    list.models.push_back(ModelTopology(topology, i));
    plans.push_back(PlanMemory(list.models[i], *files[i], 0, nodes));
    list.needs.push_back(NeedOf(plans[i], list.models[i], files[i]->spec()));
  }
  const NodeFacts& here = nodes.Of(topology, "");
  const int64_t free_bytes = here.memory;
  list.room = RoomOfModels(topology, free_bytes - MemoryOfRequests(topology.limits, here.memory_total));
  list.warning = ModelsMemoryWarning(topology, free_bytes);
  const bool some_on_request = std::ranges::any_of(list.needs, &ModelNeed::on_request);
  list.kv = some_on_request ? ShareKvInTurns(list.room, list.needs, list.at_once) : ShareKv(list.room, list.needs);
  for (size_t i = 0; i < files.size(); ++i) {
    SetKvShare(list.kv[i], list.needs[i], list.models[i].cache);
    list.limits.push_back(LimitsOf(list.models[i], files[i]->spec(), plans[i], list.needs[i].fixed));
  }
  return list;
}

}  // namespace quire
