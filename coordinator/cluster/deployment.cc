#include "coordinator/cluster/deployment.h"

#include <sodium.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <thread>

#include "comm/error.h"

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

}  // namespace

Deployment::Deployment(const Topology& topology, const ModelFiles& model, const std::atomic<bool>& cancel)
    : topology_(topology), cancel_(cancel) {
  const ModelConfig& config = model.config();
  if (topology.parallel.tensor > config.num_heads) {
    Fail("tensor parallel size {} is impossible: the model has {} query heads, so 1 to {} workers can share it",
         topology.parallel.tensor, config.num_heads, config.num_heads);
  }
  max_model_len_ = static_cast<int>(config.max_position);
  if (topology.scheduler.max_model_len > max_model_len_) {
    Fail("max_model_len {} exceeds the {} tokens the model was trained for", topology.scheduler.max_model_len,
         max_model_len_);
  }
  if (topology.scheduler.max_model_len > 0) max_model_len_ = topology.scheduler.max_model_len;
  group_ = std::make_unique<WorkerGroup>(GroupOptions(topology, model));
  group_->check_launcher = [this] { CheckLauncher(); };
  group_->progress = [](const std::string& line) { spdlog::info("{}", line); };
  Launch();
  group_->AwaitJoined();
  const std::string backend = ChooseBackend(topology);
  cuda_ = backend == "cuda";
  max_step_tokens_ = topology.scheduler.max_step_tokens;
  if (max_step_tokens_ == 0)
    max_step_tokens_ = std::max(cuda_ ? kCudaStepTokens : kCpuStepTokens, topology.scheduler.max_running);
  assignment_ = Assignment(topology, model, backend);
  group_->Load(assignment_);
  const int num_blocks = ChooseNumBlocks(topology), num_host_blocks = ChooseNumHostBlocks(topology);
  num_blocks_ = num_blocks;
  num_host_blocks_ = num_host_blocks > 0 ? num_host_blocks + 1 : 0;
  const double swap_seconds = group_->Start(num_blocks_, num_host_blocks_);
  const int64_t pool_tokens = int64_t{num_blocks - 1} * topology.cache.block_size;
  if (pool_tokens < max_model_len_ && config.sliding_window == 0) {
    spdlog::warn("the KV cache holds {} tokens: sequences are limited to that instead of {}", pool_tokens,
                 max_model_len_);
    max_model_len_ = static_cast<int>(pool_tokens);
  }
  engine_ = std::make_unique<Engine>(MakeEngineOptions(topology, config, num_blocks, num_host_blocks));
  engine_->StartEpoch(epoch_);
  engine_->SetSwapSpeed(swap_seconds);
  const double block_mib = static_cast<double>(group_->ranks()[0].bytes_per_block) / (1 << 20);
  spdlog::info("KV cache: {} blocks of {} tokens, {:.1f} MiB per worker", num_blocks - 1, topology.cache.block_size,
               block_mib * num_blocks);
  if (num_host_blocks > 0) {
    spdlog::info("swap space: {} blocks, {:.1f} MiB per worker, {:.1f} us to move one", num_host_blocks,
                 block_mib * num_host_blocks, swap_seconds * 1e6);
  }
}

Deployment::~Deployment() = default;

void Deployment::Launch() {
  if (topology_.launch.method != "mpirun") {
    spdlog::info("waiting for {} workers: mpirun -np {} quire-worker --coordinator {}", group_->size(), group_->size(),
                 group_->data_endpoint());
    return;
  }
  const auto command =
      MpirunCommand(topology_, FindWorkerBinary(), group_->data_endpoint(), epoch_, runtime_dir_.path());
  spdlog::debug("launching: {}", fmt::join(command, " "));
  CheckMpirunAllowed();
  launcher_ = std::make_unique<ChildProcess>(command);
}

void Deployment::Relaunch() {
  launcher_->Stop();  // workers of the old epoch are fenced off: nobody reads what they send
  launcher_ended_.reset();
  group_->BeginEpoch(++epoch_);
  Launch();
  group_->AwaitJoined();
  group_->Load(assignment_);
  const double swap_seconds = group_->Start(num_blocks_, num_host_blocks_);
  engine_->StartEpoch(epoch_);
  engine_->SetSwapSpeed(swap_seconds);
}

EngineOptions Deployment::MakeEngineOptions(const Topology& topology, const ModelConfig& config, int num_blocks,
                                            int num_host_blocks) const {
  EngineOptions options;
  options.scheduler.max_step_tokens = max_step_tokens_;
  options.scheduler.max_running = topology.scheduler.max_running;
  options.scheduler.preemption = topology.scheduler.preemption == "swap"        ? PreemptionMode::kSwap
                                 : topology.scheduler.preemption == "recompute" ? PreemptionMode::kRecompute
                                                                                : PreemptionMode::kAuto;
  options.blocks.num_blocks = num_blocks;
  options.blocks.num_host_blocks = num_host_blocks;
  options.blocks.block_size = topology.cache.block_size;
  options.blocks.watermark = topology.cache.watermark;
  options.blocks.prefix_caching = topology.cache.prefix_caching;
  options.blocks.sliding_window = static_cast<int>(config.sliding_window);
  ::randombytes_buf(options.blocks.hash_key.data(), options.blocks.hash_key.size());
  options.plan_ahead = topology.scheduler.plan_ahead;
  options.max_model_len = max_model_len_;
  options.vocab_size = static_cast<int>(config.vocab_size);
  return options;
}

int Deployment::ChooseNumHostBlocks(const Topology& topology) const {
  int64_t per_block = 1;
  for (const RankInfo& rank : group_->ranks()) per_block = std::max(per_block, rank.bytes_per_block);
  return static_cast<int>(std::min<int64_t>(topology.cache.host_swap_bytes / per_block, INT32_MAX - 1));
}

WorkerGroup::Options Deployment::GroupOptions(const Topology& topology, const ModelFiles& model) const {
  WorkerGroup::Options options;
  options.epoch = epoch_;
  if (topology.transport.bind.empty()) {
    options.data_endpoint = "ipc://" + runtime_dir_.path() + "/data";
    options.ctrl_endpoint = CtrlEndpoint(options.data_endpoint, 0);
  } else {
    options.data_endpoint = fmt::format("tcp://{}:{}", topology.transport.bind, topology.transport.ports[0]);
    options.ctrl_endpoint = fmt::format("tcp://{}:{}", topology.transport.bind, topology.transport.ports[1]);
  }
  options.size = topology.parallel.tensor;
  options.fingerprint = model.Fingerprint();
  return options;
}

std::string Deployment::ChooseBackend(const Topology& topology) const {
  if (topology.backend == "cpu") return "cpu";
  // The ranks of a host take a device each, unless the topology says who takes which.
  std::map<std::string, int> ranks_of_host;
  for (const RankInfo& rank : group_->ranks()) ranks_of_host[rank.host] += topology.parallel.replicas;
  const bool listed = !topology.nodes.empty() && !topology.nodes[0].devices.empty();
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
    spdlog::info("backend: CUDA");
    return "cuda";
  }
  if (topology.backend == "cuda") {
    Fail("--backend cuda is impossible: {}; use --backend cpu, or fewer workers (--tensor-parallel-size)", problem);
  }
  if (topology.dtype != "auto" && topology.dtype != "float32") {
    Fail("--dtype {} needs a GPU ({}); the CPU computes in float32", topology.dtype, problem);
  }
  if (topology.cache.dtype != "auto") {
    Fail("--kv-cache-dtype {} needs a GPU ({}); the CPU keeps float32", topology.cache.dtype, problem);
  }
  spdlog::info("backend: CPU ({})", problem);
  return "cpu";
}

AssignMessage Deployment::Assignment(const Topology& topology, const ModelFiles& model,
                                     const std::string& backend) const {
  AssignMessage assign;
  assign.model_path = model.path();
  assign.fingerprint = model.Fingerprint();
  assign.block_size = topology.cache.block_size;
  assign.max_step_tokens = max_step_tokens_;
  assign.max_running = topology.scheduler.max_running;
  assign.max_model_len = max_model_len_;
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  assign.threads =
      topology.threads_per_worker > 0
          ? topology.threads_per_worker
          : std::max(1, cores / (topology.parallel.tensor * topology.parallel.replicas));
  assign.shares = Shares(topology);
  assign.backend = backend;
  assign.dtype = topology.dtype;
  assign.kv_cache_dtype = topology.cache.dtype;
  if (!topology.nodes.empty())
    assign.devices.assign(topology.nodes[0].devices.begin(), topology.nodes[0].devices.end());
  if (backend == "cuda" && assign.devices.empty() && topology.parallel.replica > 0) {
    // Nobody said who takes which: this replica's ranks take the devices after those of the replicas before it.
    for (int rank = 0; rank < group_->size(); ++rank)
      assign.devices.push_back(topology.parallel.replica * topology.parallel.tensor + rank);
  }
  return assign;
}

void Deployment::CheckLauncher() {
  if (engine_ == nullptr && cancel_) throw GroupFailure("stopped before the workers were ready");
  if (launcher_ == nullptr || !launcher_->Ended()) return;
  // A worker's own report may still be on its way; it says more than mpirun's status.
  const auto now = std::chrono::steady_clock::now();
  if (!launcher_ended_) launcher_ended_ = now;
  if (now - *launcher_ended_ > std::chrono::milliseconds(100)) {
    throw GroupFailure("a worker is gone: mpirun " + *launcher_->Ended());
  }
}

int Deployment::ChooseNumBlocks(const Topology& topology) const {
  if (topology.cache.num_blocks > 0) return topology.cache.num_blocks + 1;
  const auto& ranks = group_->ranks();
  int64_t per_block = 0, available = INT64_MAX;
  for (const RankInfo& rank : ranks) {
    per_block = std::max(per_block, rank.bytes_per_block);
    available = std::min(available, rank.available_bytes);
  }
  int64_t budget = topology.cache.memory_bytes;
  if (budget == 0) {
    // The ranks of a host share its memory, those of all replicas; each of those on GPUs reports what it may take.
    const double sharers = cuda_ ? 1 : static_cast<double>(ranks.size()) * topology.parallel.replicas;
    budget = static_cast<int64_t>(topology.cache.memory * static_cast<double>(available) / sharers);
    if (!cuda_) budget = std::min(kDefaultCpuKvBytes, budget);
  }
  const int64_t most_useful =
      int64_t{topology.scheduler.max_running} * ((max_model_len_ - 1) / topology.cache.block_size + 1);
  const int64_t blocks = std::min({budget / per_block, most_useful + 1, int64_t{INT32_MAX}});
  if (blocks < 2) {
    Fail(
        "the KV cache needs at least {} bytes per worker ({} bytes a block), {} are there; free memory, or raise "
        "--kv-cache-memory-bytes or --gpu-memory-utilization",
        2 * per_block, per_block, budget);
  }
  return static_cast<int>(blocks);
}

void Deployment::Stop(const std::string& reason) {
  group_->Shutdown(reason);
  if (launcher_ != nullptr && !launcher_->WaitFor(3000)) launcher_->Stop();
}

}  // namespace quire
