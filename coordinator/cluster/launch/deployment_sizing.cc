// The half of Deployment that decides what the workers compute on, what each of them is told, and how many blocks fit.
#include <sodium.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "comm/base/error.h"
#include "coordinator/cluster/launch/backend_settings.h"
#include "coordinator/cluster/launch/deployment.h"
#include "coordinator/cluster/launch/placement.h"
#include "coordinator/cluster/launch/rank_hosts.h"

namespace quire {

namespace {

// A step should not stall the sequences that decode for long.
constexpr int kCpuStepTokens = 512, kCudaStepTokens = 2048;
// More KV memory than this is taken on request only: a server should not fill a laptop. A GPU is there to be filled.
constexpr int64_t kDefaultCpuKvBytes = int64_t{4} << 30;

std::vector<double> Shares(const Topology& topology) {
  if (!topology.parallel.shares.empty()) return topology.parallel.shares;
  return std::vector<double>(static_cast<size_t>(topology.parallel.tensor), 1.0);
}

/// Ranks of all replicas by host. Where no node says how many it has, all replicas are on this host.
std::map<std::string, int> RanksOfAllReplicas(const Topology& topology, const std::vector<RankInfo>& ranks) {
  std::map<std::string, int> counts = RanksOfHosts(ranks);
  for (auto& [host, count] : counts) {
    const auto node = std::ranges::find(topology.nodes, host, &Topology::Node::host);
    const bool known = node != topology.nodes.end() && node->ranks_of_all > 0;
    count = known ? node->ranks_of_all : OnThisHost(topology) ? count * topology.parallel.replicas : count;
  }
  return counts;
}

}  // namespace

void Deployment::ChooseStepTokens() {
  if (max_step_tokens_ > 0) return;
  max_step_tokens_ = topology_.scheduler.max_step_tokens;
  if (max_step_tokens_ == 0)
    max_step_tokens_ = std::max(cuda_ ? kCudaStepTokens : kCpuStepTokens, topology_.scheduler.max_running);
}

PoolSizes Deployment::ChoosePools(int needed) const {
  int64_t per_block = 1;
  for (const RankInfo& rank : group_->ranks()) per_block = std::max(per_block, rank.bytes_per_block);
  const int64_t host_blocks = std::min<int64_t>(topology_.cache.host_swap_bytes / per_block, INT32_MAX - 1);
  return {ChooseNumBlocks(needed), static_cast<int>(host_blocks)};
}

EngineOptions Deployment::MakeEngineOptions(const PoolSizes& pools) const {
  const ModelSpec& spec = model_.spec();
  EngineOptions options;
  options.scheduler.max_step_tokens = max_step_tokens_;
  options.scheduler.max_running = topology_.scheduler.max_running;
  options.scheduler.preemption = topology_.scheduler.preemption;
  options.blocks.num_blocks = pools.num_blocks;
  options.blocks.num_host_blocks = pools.num_host_blocks;
  options.blocks.block_size = topology_.cache.block_size;
  options.blocks.watermark = topology_.cache.watermark;
  options.blocks.prefix_caching = topology_.cache.prefix_caching;
  options.blocks.sliding_window = static_cast<int>(spec.window());
  ::randombytes_buf(options.blocks.hash_key.data(), options.blocks.hash_key.size());
  options.max_wait_seconds = topology_.limits.queue_seconds;
  options.max_request_seconds = topology_.limits.request_seconds;
  options.plan_ahead = topology_.scheduler.plan_ahead;
  options.max_model_len = max_model_len_;
  options.vocab_size = static_cast<int>(spec.vocab_size);
  return options;
}

BackendKind Deployment::ChooseBackend() const {
  if (topology_.compute.backend == BackendKind::kCpu) return BackendKind::kCpu;
  // The ranks of a host take a device each, unless the topology says who takes which.
  std::map<std::string, int> ranks_of_host = RanksOfAllReplicas(topology_, group_->ranks());
  const bool listed = std::ranges::any_of(topology_.nodes, [](const auto& node) { return !node.devices.empty(); });
  std::string problem;
  for (size_t r = 0; r < group_->ranks().size() && problem.empty(); ++r) {
    const RankInfo& rank = group_->ranks()[r];
    if (rank.devices == 0) {
      problem = fmt::format("rank {} on {}: {}", r, rank.host, rank.device_problem);
    } else if (!listed && rank.devices < ranks_of_host[rank.host]) {
      problem = fmt::format("{} has {} GPUs for {} ranks", rank.host, rank.devices, ranks_of_host[rank.host]);
    }
  }
  if (problem.empty()) {
    CheckBackendSettings(topology_.compute, BackendKind::kCuda, "there are GPUs");
    spdlog::info("backend: CUDA");
    return BackendKind::kCuda;
  }
  if (topology_.compute.backend == BackendKind::kCuda) {
    Fail("--backend cuda is impossible: {}; use --backend cpu, or fewer workers (--tensor-parallel-size)", problem);
  }
  CheckBackendSettings(topology_.compute, BackendKind::kCpu, problem);
  spdlog::info("backend: CPU ({})", problem);
  return BackendKind::kCpu;
}

AssignMessage Deployment::MakeAssignment() const {
  AssignMessage assign;
  // Workers on other nodes have other working directories.
  assign.model_path = OnThisHost(topology_) ? model_.path() : std::filesystem::absolute(model_.path()).string();
  assign.fingerprint = model_.Fingerprint();
  assign.block_size = topology_.cache.block_size;
  assign.max_step_tokens = max_step_tokens_;
  assign.max_running = topology_.scheduler.max_running;
  assign.max_model_len = max_model_len_;
  int most_of_a_host = 1;
  for (const auto& [host, count] : RanksOfAllReplicas(topology_, group_->ranks()))
    most_of_a_host = std::max(most_of_a_host, count);
  assign.threads = ThreadsOfWorker(topology_, most_of_a_host);
  assign.shares = Shares(topology_);
  assign.compute = topology_.compute;
  assign.compute.backend = cuda_ ? BackendKind::kCuda : BackendKind::kCpu;
  if (assign.compute.dtype == ModelDtype::kAuto)
    assign.compute.dtype = cuda_ ? model_.GpuDtype() : ModelDtype::kFloat32;
  if (cuda_) assign.devices = DevicesOfRanks(topology_, HostsOfRanks(group_->ranks()));
  if (cuda_ && assign.devices.empty() && topology_.parallel.replica > 0 && OnThisHost(topology_)) {
    // Nobody said who takes which: this replica's ranks take the devices after those of the replicas before it.
    for (int rank = 0; rank < group_->size(); ++rank)
      assign.devices.push_back(topology_.parallel.replica * topology_.parallel.tensor + rank);
  }
  return assign;
}

int Deployment::ChooseNumBlocks(int needed) const {
  if (topology_.cache.num_blocks > 0) return topology_.cache.num_blocks + 1;
  // The ranks of a host share its memory; each of those on GPUs reports what it may take.
  std::map<std::string, int> sharers = RanksOfAllReplicas(topology_, group_->ranks());
  int64_t per_block = 0, available = INT64_MAX;
  for (const RankInfo& rank : group_->ranks()) {
    per_block = std::max(per_block, rank.bytes_per_block);
    available = std::min(available, rank.available_bytes / (cuda_ ? 1 : sharers[rank.host]));
  }
  int64_t budget = topology_.cache.memory_bytes;
  if (budget == 0) {
    budget = static_cast<int64_t>(topology_.cache.memory * static_cast<double>(available));
    if (!cuda_) budget = std::min(std::max(kDefaultCpuKvBytes, needed * per_block), budget);
  }
  const int64_t most_useful =
      int64_t{topology_.scheduler.max_running} * ((max_model_len_ - 1) / topology_.cache.block_size + 1);
  const int64_t blocks = std::min({budget / per_block, most_useful + 1, int64_t{INT32_MAX}});
  if (blocks < 2) {
    Fail(
        "the KV cache needs at least {} bytes per worker ({} bytes a block), {} are there; free memory, or raise "
        "--kv-cache-memory-bytes or --gpu-memory-utilization",
        2 * per_block, per_block, budget);
  }
  return static_cast<int>(blocks);
}

}  // namespace quire
