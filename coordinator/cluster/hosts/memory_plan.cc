#include "coordinator/cluster/hosts/memory_plan.h"

#include <algorithm>
#include <fstream>
#include <map>

#include "comm/base/error.h"
#include "comm/base/host_name.h"
#include "comm/base/json.h"
#include "comm/base/parse_number.h"
#include "coordinator/cluster/hosts/node_probe.h"
#include "coordinator/cluster/hosts/program.h"
#include "coordinator/cluster/launch/host_fit.h"
#include "coordinator/cluster/launch/launcher.h"
#include "coordinator/cluster/launch/pool_sizing.h"
#include "coordinator/cluster/launch/rank_hosts.h"
#include "coordinator/cluster/launch/runtime_dir.h"
#include "coordinator/cluster/launch/worker_assignment.h"

namespace quire {

namespace {

constexpr std::chrono::seconds kNodeLimit{10}, kWorkerLimit{60};

NodeFacts AskNode(const Topology& topology, const std::string& host) {
  const ProgramResult result = RunProgram(HostProbeCommand(topology, host, WorkerBinary(topology)), kNodeLimit);
  const auto answer = ParseProbe(result.output);
  const auto value = [&](const std::string& key) { return answer.contains(key) ? answer.at(key) : ""; };
  const auto memory = ParseNumber<int64_t>(value("memory"));
  if (!memory) {
    Fail("{} does not say what memory it has: quire check finds out why; or plan with --rank-memory",
         host.empty() ? "this host" : host);
  }
  const std::string devices = value("devices");
  const size_t space = std::min(devices.find(' '), devices.size());
  return {.memory = *memory,
          .memory_total = ParseNumber<int64_t>(value("memory_total")).value_or(0),
          .memory_limit = value("memory_limit"),
          .processors = ParseNumber<int>(value("processors")).value_or(0),
          .devices = ParseNumber<int>(devices.substr(0, space)).value_or(0),
          .device_problem = devices.substr(std::min(space + 1, devices.size()))};
}

/// Gets the ranks' sizes from a local quire-worker, because only the worker knows how weights are packed. Returns the
/// bytes that each rank leaves unused on its device.
std::vector<int64_t> TakeSizes(const Topology& topology, const AssignMessage& assignment,
                               std::vector<RankInfo>& ranks) {
  const RuntimeDir directory;
  const std::string path = directory.path() + "/assignment";
  const Frame frame = Encode(assignment, 1, 0);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&frame.header), sizeof(frame.header));
  file.write(reinterpret_cast<const char*>(frame.body.data()), static_cast<std::streamsize>(frame.body.size()));
  file.close();
  const ProgramResult result = RunProgram({WorkerBinary(topology), "--plan-memory", path}, kWorkerLimit);
  if (result.status == kSettingsStatus) FailSettings("{}", FirstLine(result.output));
  if (result.status != 0) Fail("{}", FirstLine(result.output));
  const Json sizes = ParseJson(result.output, "what quire-worker says of its memory");
  std::vector<int64_t> reserved;
  for (size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].weight_bytes = sizes.at(r).at("weight_bytes");
    ranks[r].bytes_per_block = sizes.at(r).at("block_bytes");
    ranks[r].bytes_per_state = sizes.at(r).at("state_bytes");
    ranks[r].working = {sizes.at(r).at("process_bytes"), sizes.at(r).at("step_bytes"), sizes.at(r).at("file_bytes")};
    reserved.push_back(sizes.at(r).at("reserved_bytes"));
  }
  return reserved;
}

class Planner {
 public:
  Planner(const Topology& topology, const ModelFiles& model, int64_t rank_memory, NodeAnswers& nodes)
      : topology_(topology), model_(model), rank_memory_(rank_memory), nodes_(nodes) {}

  MemoryPlan Plan() {
    PlaceAll();
    const BackendKind backend = Backend();
    AssignMessage& assign = plan_.assignment;
    assign = MakeAssignment(topology_, model_, plan_.ranks, backend);
    const int model_len = ChooseModelLen(topology_, model_.spec());
    assign.max_step_tokens = ChooseStepTokens(topology_, backend);
    assign.max_model_len = model_len;
    assign.draft.max_model_len = std::min(assign.draft.max_model_len, model_len);
    const std::vector<int64_t> reserved = TakeSizes(topology_, assign, plan_.ranks);
    SetAvailable(backend, reserved);
    plan_.warnings = HostWarnings(topology_, backend, plan_.ranks);
    WarnOfModelsMemory();
    try {
      plan_.pools = ChoosePools(topology_, backend, plan_.ranks, {.max_model_len = model_len});
    } catch (const Error& error) {
      plan_.problem = error.what();
      return std::move(plan_);
    }
    plan_.model_len =
        FittingModelLen(model_len, model_.spec(),
                        int64_t{plan_.usable_blocks() - plan_.pools.state_blocks} * topology_.cache.block_size);
    return std::move(plan_);
  }

 private:
  void PlaceAll() {
    if (OnThisHost(topology_) || topology_.launch.method == LaunchMethod::kExternal) {
      AddRanks("", topology_.parallel.num_ranks());
      return;
    }
    plan_.placement = PlaceRanks(topology_, topology_.parallel.num_ranks(), {});
    if (!plan_.placement.problem.empty()) FailSettings("{}", plan_.placement.problem);
    for (const NodeRanks& ranks : plan_.placement.nodes) AddRanks(topology_.nodes[ranks.node].host, ranks.count);
  }

  void AddRanks(const std::string& host, int count) {
    RankInfo rank;
    rank.host = host.empty() ? OwnHostName() : host;
    if (rank_memory_ == 0) {
      const NodeFacts& facts = nodes_.Of(topology_, host);
      memory_of_host_[rank.host] = facts.memory;
      rank.memory_bytes = facts.memory_total;
      rank.memory_limit = facts.memory_limit;
      rank.processors = facts.processors;
      rank.devices = facts.devices;
      rank.device_problem = facts.device_problem;
    }
    plan_.ranks.insert(plan_.ranks.end(), static_cast<size_t>(count), rank);
  }

  void WarnOfModelsMemory() {
    if (rank_memory_ > 0 || !OnThisHost(topology_)) return;  // models share the memory of one host
    const std::string warning = ModelsMemoryWarning(topology_, nodes_.Of(topology_, "").memory);
    if (!warning.empty()) plan_.warnings.push_back(warning);
  }

  BackendKind Backend() const {
    if (rank_memory_ == 0) return ChooseBackend(topology_, plan_.ranks);
    // A plan does not ask hosts for their GPUs, because the hosts need not exist.
    return topology_.compute.backend == BackendKind::kCuda ? BackendKind::kCuda : BackendKind::kCpu;
  }

  /// Sets the memory that is free for blocks after loading, as ranks would report it (worker/engine/rank_engine.h).
  void SetAvailable(BackendKind backend, const std::vector<int64_t>& reserved) {
    const auto ranks_of_host = RanksOfAllReplicas(topology_, plan_.ranks);
    if (backend == BackendKind::kCuda && rank_memory_ == 0 && topology_.cache.num_blocks == 0 &&
        topology_.cache.memory_bytes == 0) {
      Fail("what a GPU has free is known once a rank holds it: give --rank-memory, or cache.memory_bytes");
    }
    std::map<std::string, int64_t> loaded_on_host;
    for (const RankInfo& rank : plan_.ranks)
      loaded_on_host[rank.host] += rank.weight_bytes + rank.working.process_bytes;
    const auto ranks_here = RanksOfHosts(plan_.ranks);
    for (size_t r = 0; r < plan_.ranks.size(); ++r) {
      RankInfo& rank = plan_.ranks[r];
      const int sharers = ranks_of_host.at(rank.host);
      if (backend == BackendKind::kCuda) {
        rank.available_bytes = rank_memory_ > 0 ? rank_memory_ - rank.weight_bytes - reserved[r] : INT64_MAX;
      } else if (rank_memory_ > 0) {
        rank.available_bytes = sharers * (rank_memory_ - rank.weight_bytes - rank.working.process_bytes);
        rank.memory_bytes = sharers * rank_memory_;
        rank.memory_limit = kGivenMemory;
      } else {
        rank.available_bytes =
            memory_of_host_.at(rank.host) - loaded_on_host[rank.host] * sharers / ranks_here.at(rank.host);
      }
    }
  }

  const Topology& topology_;
  const ModelFiles& model_;
  const int64_t rank_memory_;
  NodeAnswers& nodes_;
  std::map<std::string, int64_t> memory_of_host_;
  MemoryPlan plan_;
};

}  // namespace

const NodeFacts& NodeAnswers::Of(const Topology& topology, const std::string& host) {
  const auto known = facts_.find(host);
  return known != facts_.end() ? known->second : facts_.emplace(host, AskNode(topology, host)).first->second;
}

MemoryPlan PlanMemory(const Topology& topology, const ModelFiles& model, int64_t rank_memory, NodeAnswers& nodes) {
  return Planner(topology, model, rank_memory, nodes).Plan();
}

int64_t BlocksOfSequence(const ModelSpec& spec, int block_size, int64_t tokens) {
  const int64_t all = (tokens + block_size - 1) / block_size;
  // The first token of an attention window may be the last token of its block.
  return spec.window() > 0 ? std::min(all, (spec.window() + block_size - 2) / block_size + 1) : all;
}

int64_t SequencesAtOnce(const MemoryPlan& plan, const Topology& topology, const ModelSpec& spec, int64_t tokens) {
  const int64_t blocks = BlocksOfSequence(spec, topology.cache.block_size, tokens) + plan.pools.state_blocks;
  return std::min<int64_t>(topology.scheduler.max_running, plan.usable_blocks() / blocks);
}

}  // namespace quire
