#include "coordinator/cluster/launch/worker_assignment.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "comm/base/error.h"
#include "comm/model/stage_plan.h"
#include "coordinator/cluster/launch/backend_settings.h"
#include "coordinator/cluster/launch/draft_model.h"
#include "coordinator/cluster/launch/placement.h"
#include "coordinator/cluster/launch/rank_hosts.h"

namespace quire {

namespace {

std::vector<double> Shares(const Topology& topology) {
  if (!topology.parallel.shares.empty()) return topology.parallel.shares;
  return std::vector<double>(static_cast<size_t>(topology.parallel.tensor), 1.0);
}

}  // namespace

std::vector<int32_t> StagesOf(const ModelFiles& model, int pipeline, const std::vector<int>& stages) {
  if (pipeline == 1) return {};
  if (stages.empty()) return PlanStages(model, pipeline);
  const std::string problem = StagesProblem(model.spec(), stages);
  if (!problem.empty()) FailSettings("{}", problem);
  return stages;
}

BackendKind ChooseBackend(const Topology& topology, const std::vector<RankInfo>& ranks) {
  if (topology.compute.backend == BackendKind::kCpu) return BackendKind::kCpu;
  // Unless the topology lists devices, each rank takes a device of its host for itself.
  std::map<std::string, int> ranks_of_host = RanksOfAllReplicas(topology, ranks);
  const bool listed = std::ranges::any_of(topology.nodes, [](const auto& node) { return !node.devices.empty(); });
  std::string problem;
  for (size_t r = 0; r < ranks.size() && problem.empty(); ++r) {
    const RankInfo& rank = ranks[r];
    if (rank.devices == 0) {
      problem = fmt::format("rank {} on {}: {}", r, rank.host, rank.device_problem);
    } else if (!listed && rank.devices < ranks_of_host[rank.host]) {
      problem = fmt::format("{} has {} GPUs for {} ranks", rank.host, rank.devices, ranks_of_host[rank.host]);
    }
  }
  if (problem.empty()) {
    CheckBackendSettings(topology, BackendKind::kCuda, "there are GPUs");
    spdlog::info("backend: CUDA");
    return BackendKind::kCuda;
  }
  if (topology.compute.backend == BackendKind::kCuda) {
    FailSettings("--backend cuda is impossible: {}; use --backend cpu, or fewer workers (--tensor-parallel-size)",
                 problem);
  }
  CheckBackendSettings(topology, BackendKind::kCpu, problem);
  spdlog::info("backend: CPU ({})", problem);
  return BackendKind::kCpu;
}

AssignMessage MakeAssignment(const Topology& topology, const ModelFiles& model, const std::vector<RankInfo>& ranks,
                             BackendKind backend) {
  AssignMessage assign;
  const bool cuda = backend == BackendKind::kCuda;
  // Workers on other nodes have other working directories, so the path must be absolute.
  assign.model_path = OnThisHost(topology) ? model.path() : std::filesystem::absolute(model.path()).string();
  assign.fingerprint = model.Fingerprint();
  if (cuda && !model.adapters().empty())
    FailSettings(
        "LoRA adapters (--lora-modules) run on the CPU only: use --backend cpu, or serve a model into which "
        "the adapter is merged");
  if (cuda && !topology.lora.dirs.empty())
    FailSettings("LoRA adapters (--lora-dir) run on the CPU only: use --backend cpu, or leave --lora-dir out");
  if (cuda && !topology.cache.disk.dir.empty())
    FailSettings("--kv-disk stores blocks of the CPU backend only: use --backend cpu, or leave --kv-disk out");
  for (const AdapterFiles& adapter : model.adapters()) {
    assign.adapters.push_back(OnThisHost(topology) ? adapter.path()
                                                   : std::filesystem::absolute(adapter.path()).string());
  }
  assign.load_format = model.load_format();
  assign.draft = DraftModelOf(topology, model);
  if (!cuda) assign.draft_rows = MostDraftRows(topology);
  assign.block_size = topology.cache.block_size;
  assign.max_running = topology.scheduler.max_running;
  assign.threads = ThreadsOfWorkers(topology, ranks);
  assign.shares = Shares(topology);
  assign.stage_layers = StagesOf(model, topology.parallel.pipeline, topology.parallel.stages);
  if (cuda && !assign.stage_layers.empty())
    FailSettings("--pipeline-parallel-size {} is for the CPU backend: use --backend cpu, or --tensor-parallel-size",
                 topology.parallel.pipeline);
  assign.compute = topology.compute;
  assign.compute.backend = backend;
  if (!cuda) SettleForCpu(topology.exact, model, assign.compute);
  if (assign.compute.dtype == ModelDtype::kAuto) assign.compute.dtype = model.GpuDtype();
  if (assign.compute.activations == ActivationType::kAuto) assign.compute.activations = ActivationType::kInt16;
  if (cuda) assign.devices = DevicesOfRanks(topology, HostsOfRanks(ranks));
  if (cuda && assign.devices.empty() && topology.parallel.replica > 0 && OnThisHost(topology)) {
    // If no devices are listed, the ranks of this replica take the devices after those of earlier replicas.
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      assign.devices.push_back(topology.parallel.replica * topology.parallel.tensor + static_cast<int>(rank));
  }
  return assign;
}

}  // namespace quire
