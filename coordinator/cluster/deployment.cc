#include "coordinator/cluster/deployment.h"

#include <sodium.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <thread>

#include "comm/error.h"
#include "coordinator/cluster/launcher.h"

namespace quire {

namespace {

// A step should not stall the sequences that decode for long.
constexpr int kCpuStepTokens = 512, kCudaStepTokens = 2048;
// More KV memory than this is taken on request only: a server should not fill a laptop. A GPU is there to be filled.
constexpr int64_t kDefaultCpuKvBytes = int64_t{4} << 30;

constexpr int kOrderlyEndMillis = 3000;
// Whoever starts workers may take a while: a queue of jobs, an image to load.
constexpr auto kExternalJoinDeadline = std::chrono::seconds(600);

std::vector<double> Shares(const Topology& topology) {
  if (!topology.parallel.shares.empty()) return topology.parallel.shares;
  return std::vector<double>(static_cast<size_t>(topology.parallel.tensor), 1.0);
}

}  // namespace

Deployment::Deployment(const Topology& topology, const ModelFiles& model, const std::atomic<bool>& cancel)
    : topology_(topology), model_(model), cancel_(cancel) {
  CheckShape(shape());
  max_model_len_ = static_cast<int>(model.config().max_position);
  if (topology.scheduler.max_model_len > max_model_len_) {
    Fail("max_model_len {} exceeds the {} tokens the model was trained for", topology.scheduler.max_model_len,
         max_model_len_);
  }
  if (topology.scheduler.max_model_len > 0) max_model_len_ = topology.scheduler.max_model_len;
  group_ = std::make_unique<WorkerGroup>(GroupOptions());
  group_->check_launcher = [this] { CheckLauncher(); };
  group_->progress = [](const std::string& line) { spdlog::info("{}", line); };
  BringUp();
  const PoolSizes pools = ChoosePools(1);
  const double swap_seconds = Reserve(pools);
  const int64_t pool_tokens = int64_t{pools.num_blocks - 1} * topology.cache.block_size;
  if (pool_tokens < max_model_len_ && model.config().sliding_window == 0) {
    spdlog::warn("the KV cache holds {} tokens: sequences are limited to that instead of {}", pool_tokens,
                 max_model_len_);
    max_model_len_ = static_cast<int>(pool_tokens);
  }
  engine_ = std::make_unique<Engine>(MakeEngineOptions(pools));
  engine_->StartEpoch(epoch_);
  engine_->SetSwapSpeed(swap_seconds);
}

Deployment::~Deployment() = default;

void Deployment::CheckShape(const GroupShape& shape) const {
  const int heads = static_cast<int>(model_.config().num_heads);
  if (shape.tensor < 1 || shape.tensor > heads) {
    Fail("tensor parallel size {} is impossible: the model has {} query heads, so 1 to {} workers can share it",
         shape.tensor, heads, heads);
  }
  if (!shape.shares.empty() && shape.shares.size() != static_cast<size_t>(shape.tensor))
    Fail("{} shares for {} workers", shape.shares.size(), shape.tensor);
}

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
  launcher_ = std::make_unique<Mpirun>(command);
}

void Deployment::EndWorkers() {
  launcher_.reset();  // workers of an epoch that is over are fenced off: nobody reads what they still send
  launcher_ended_.reset();
}

void Deployment::BringUp() {
  Launch();
  group_->AwaitJoined();
  cuda_ = ChooseBackend() == "cuda";
  if (max_step_tokens_ == 0) {
    max_step_tokens_ = topology_.scheduler.max_step_tokens;
    if (max_step_tokens_ == 0)
      max_step_tokens_ = std::max(cuda_ ? kCudaStepTokens : kCpuStepTokens, topology_.scheduler.max_running);
  }
  group_->Load(Assignment());
}

double Deployment::Reserve(const PoolSizes& pools) {
  const int host_blocks = pools.num_host_blocks > 0 ? pools.num_host_blocks + 1 : 0;  // the null block
  const double swap_seconds = group_->Start(pools.num_blocks, host_blocks);
  const double block_mib = static_cast<double>(group_->ranks()[0].bytes_per_block) / (1 << 20);
  spdlog::info("KV cache: {} blocks of {} tokens, {:.1f} MiB per worker", pools.num_blocks - 1,
               topology_.cache.block_size, block_mib * pools.num_blocks);
  if (pools.num_host_blocks > 0) {
    spdlog::info("swap space: {} blocks, {:.1f} MiB per worker, {:.1f} us to move one", pools.num_host_blocks,
                 block_mib * pools.num_host_blocks, swap_seconds * 1e6);
  }
  return swap_seconds;
}

void Deployment::StartNextEpoch(bool same_shape) {
  EndWorkers();
  group_->BeginEpoch(++epoch_, topology_.parallel.tensor);
  BringUp();
  // The same workers get the same pool, whatever else takes memory by now.
  const PoolSizes pools = same_shape ? engine_->blocks().sizes() : ChoosePools(engine_->BlocksNeeded());
  const double swap_seconds = Reserve(pools);
  engine_->StartEpoch(epoch_, pools);
  engine_->SetSwapSpeed(swap_seconds);
}

void Deployment::Relaunch(const GroupFailure&) { StartNextEpoch(true); }

void Deployment::Reshape(const GroupShape& wanted) {
  CheckShape(wanted);
  const GroupShape before = shape();
  group_->Shutdown("the workers are replaced");
  if (launcher_ != nullptr) launcher_->process.WaitFor(kOrderlyEndMillis);
  try {
    topology_.parallel.tensor = wanted.tensor;
    topology_.parallel.shares = wanted.shares;
    StartNextEpoch(wanted == before);
  } catch (...) {
    topology_.parallel.tensor = before.tensor;
    topology_.parallel.shares = before.shares;
    throw;
  }
}

PoolSizes Deployment::ChoosePools(int needed) const {
  int64_t per_block = 1;
  for (const RankInfo& rank : group_->ranks()) per_block = std::max(per_block, rank.bytes_per_block);
  const int64_t host_blocks = std::min<int64_t>(topology_.cache.host_swap_bytes / per_block, INT32_MAX - 1);
  return {ChooseNumBlocks(needed), static_cast<int>(host_blocks)};
}

EngineOptions Deployment::MakeEngineOptions(const PoolSizes& pools) const {
  const Topology& topology = topology_;
  const ModelConfig& config = model_.config();
  EngineOptions options;
  options.scheduler.max_step_tokens = max_step_tokens_;
  options.scheduler.max_running = topology.scheduler.max_running;
  options.scheduler.preemption = topology.scheduler.preemption == "swap"        ? PreemptionMode::kSwap
                                 : topology.scheduler.preemption == "recompute" ? PreemptionMode::kRecompute
                                                                                : PreemptionMode::kAuto;
  options.blocks.num_blocks = pools.num_blocks;
  options.blocks.num_host_blocks = pools.num_host_blocks;
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

WorkerGroup::Options Deployment::GroupOptions() const {
  const Topology& topology = topology_;
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
  options.fingerprint = model_.Fingerprint();
  if (topology.launch.method != "mpirun") {
    options.adopt = true;
    options.join_deadline = kExternalJoinDeadline;
  }
  return options;
}

std::string Deployment::ChooseBackend() const {
  const Topology& topology = topology_;
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

AssignMessage Deployment::Assignment() const {
  const Topology& topology = topology_;
  AssignMessage assign;
  assign.model_path = model_.path();
  assign.fingerprint = model_.Fingerprint();
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
  assign.backend = cuda_ ? "cuda" : "cpu";
  assign.dtype = topology.dtype;
  assign.kv_cache_dtype = topology.cache.dtype;
  if (!topology.nodes.empty())
    assign.devices.assign(topology.nodes[0].devices.begin(), topology.nodes[0].devices.end());
  if (cuda_ && assign.devices.empty() && topology.parallel.replica > 0) {
    // Nobody said who takes which: this replica's ranks take the devices after those of the replicas before it.
    for (int rank = 0; rank < group_->size(); ++rank)
      assign.devices.push_back(topology.parallel.replica * topology.parallel.tensor + rank);
  }
  return assign;
}

void Deployment::CheckLauncher() {
  if (engine_ == nullptr && cancel_)
    throw GroupFailure(LossCause::kStopping, -1, "", "stopped before the workers were ready");
  if (launcher_ == nullptr || !launcher_->process.Ended()) return;
  // A worker's own report may still be on its way; it says more than mpirun's status.
  const auto now = std::chrono::steady_clock::now();
  if (!launcher_ended_) launcher_ended_ = now;
  if (now - *launcher_ended_ <= std::chrono::milliseconds(100)) return;
  const auto culprit = launcher_->report.culprit();
  if (!culprit) throw GroupFailure(LossCause::kDied, -1, "", "a worker is gone: mpirun " + *launcher_->process.Ended());
  if (culprit->rank < 0)
    throw GroupFailure(LossCause::kDied, -1, culprit->host, fmt::format("host {} {}", culprit->host, culprit->how));
  const bool joined = static_cast<size_t>(culprit->rank) < group_->ranks().size();
  const std::string host = joined ? group_->ranks()[static_cast<size_t>(culprit->rank)].host : culprit->host;
  throw GroupFailure(
      LossCause::kDied, culprit->rank, host,
      fmt::format("rank {} on {} {}", culprit->rank, host.empty() ? "an unknown host" : host, culprit->how));
}

int Deployment::ChooseNumBlocks(int needed) const {
  const Topology& topology = topology_;
  if (topology.cache.num_blocks > 0) return topology.cache.num_blocks + 1;
  std::map<std::string, int64_t> ranks_of_host;
  for (const RankInfo& rank : group_->ranks()) ranks_of_host[rank.host] += topology.parallel.replicas;
  int64_t per_block = 0, available = INT64_MAX;
  for (const RankInfo& rank : group_->ranks()) {
    per_block = std::max(per_block, rank.bytes_per_block);
    // The ranks of a host share its memory, those of all replicas; each of those on GPUs reports what it may take.
    available = std::min(available, rank.available_bytes / (cuda_ ? 1 : ranks_of_host[rank.host]));
  }
  int64_t budget = topology.cache.memory_bytes;
  if (budget == 0) {
    budget = static_cast<int64_t>(topology.cache.memory * static_cast<double>(available));
    if (!cuda_) budget = std::min(std::max(kDefaultCpuKvBytes, needed * per_block), budget);
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
  if (launcher_ != nullptr && !launcher_->process.WaitFor(kOrderlyEndMillis)) launcher_->process.Stop();
}

}  // namespace quire
