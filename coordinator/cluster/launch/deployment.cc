#include "coordinator/cluster/launch/deployment.h"

#include <sodium.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>

#include "comm/base/error.h"
#include "coordinator/cluster/launch/backend_settings.h"
#include "coordinator/cluster/launch/engine_settings.h"
#include "coordinator/cluster/launch/grammar_sizing.h"
#include "coordinator/cluster/launch/host_fit.h"
#include "coordinator/cluster/launch/host_probe.h"
#include "coordinator/cluster/launch/kv_space.h"
#include "coordinator/cluster/launch/launcher.h"
#include "coordinator/cluster/launch/pool_sizing.h"
#include "coordinator/cluster/launch/rank_hosts.h"
#include "coordinator/cluster/launch/silent_hosts.h"
#include "coordinator/cluster/launch/worker_assignment.h"

namespace quire {

namespace {

constexpr int kOrderlyEndMillis = 3000;
constexpr auto kProbePatience = std::chrono::milliseconds(500);
// The time in which all ranks must join. After a loss the time is short, because a host that does not answer must not
// delay the other hosts. Workers that another party starts may take long: they may wait in a job queue or for an image.
constexpr auto kFirstJoinDeadline = std::chrono::seconds(60), kJoinDeadline = std::chrono::seconds(20);
constexpr auto kExternalJoinDeadline = std::chrono::seconds(600);

}  // namespace

Deployment::Deployment(const Topology& topology, const ModelFiles& model, const std::atomic<bool>& cancel,
                       std::shared_ptr<const Vocabulary> vocabulary, KvDisk* disk)
    : topology_(topology),
      model_(model),
      cancel_(cancel),
      vocabulary_(std::move(vocabulary)),
      network_(ChoosePrivateNetwork(topology)) {
  CheckShape(shape());
  max_model_len_ = ChooseModelLen(topology, model.spec());
  group_ = std::make_unique<WorkerGroup>(GroupOptions(), static_cast<LauncherWatch*>(this));
  if (!external()) spdlog::info("mpirun {}", network_.InWords());
  Place(topology_.parallel.num_ranks());
  BringUpFirst();
  const PoolSizes pools = ChoosePoolSizes();
  const double swap_seconds = Reserve(pools);
  const int fitting = FittingModelLen(max_model_len_, model.spec(),
                                      int64_t{pools.num_blocks - 1 - pools.state_blocks} * topology.cache.block_size);
  if (fitting < max_model_len_) {
    spdlog::warn("the KV cache holds {} tokens: sequences are limited to that instead of {}", fitting, max_model_len_);
    max_model_len_ = fitting;
  }
  EngineOptions options = EngineOptionsOf(topology_, model_.spec(), pools, max_model_len_, max_step_tokens_);
  if (assignment_.compute.backend == BackendKind::kCuda) options.drafts.num_tokens = 0;
  options.drafts.model_max_len = assignment_.draft.max_model_len;
  ::randombytes_buf(options.blocks.hash_key.data(), options.blocks.hash_key.size());
  if (disk != nullptr) {
    const std::string space = KvSpaceOf(model_, assignment_, group_->ranks());
    kv_store_ = disk->StoreFor(space, fmt::format("{}\n{}\n", topology_.model.path, space));
    options.blocks.hash_key = kv_store_->chain_key();  // a block has the same name in every process
  }
  engine_ = std::make_unique<Engine>(options);
  engine_->StartEpoch(epoch_);
  engine_->SetSwapSpeed(swap_seconds);
}

Deployment::~Deployment() = default;

void Deployment::CheckShape(const GroupShape& shape) const {
  const int heads = static_cast<int>(model_.spec().num_heads);
  if (shape.tensor < 1 || shape.tensor > heads) {
    FailSettings("tensor parallel size {} is impossible: the model has {} query heads, so 1 to {} workers can share it",
                 shape.tensor, heads, heads);
  }
  if (topology_.compute.expert_parallel && model_.spec().num_mixture_layers() == 0)
    FailSettings("--enable-expert-parallel is for mixtures of experts, and this model has none; leave it out");
  if (group_ != nullptr && shape.num_ranks() > group_->most_ranks()) {
    FailSettings("{} workers need keys, and {} have some: quire keygen --transport adds them, and a restart reads them",
                 shape.num_ranks(), group_->most_ranks());
  }
  if (shape.pipeline > 1 && topology_.compute.backend == BackendKind::kCuda)
    FailSettings("--pipeline-parallel-size {} is for the CPU backend: use --backend cpu, or --tensor-parallel-size",
                 shape.pipeline);
  if (!shape.shares.empty() && shape.shares.size() != static_cast<size_t>(shape.tensor))
    FailSettings("{} shares for {} workers", shape.shares.size(), shape.tensor);
  if (!shape.stages.empty() && shape.stages.size() != static_cast<size_t>(shape.pipeline))
    FailSettings("the layers of {} stages for {}", shape.stages.size(), shape.pipeline);
  StagesOf(model_, shape.pipeline, shape.stages);
}

void Deployment::SetShape(const GroupShape& shape) {
  topology_.parallel.tensor = shape.tensor;
  topology_.parallel.shares = shape.shares;
  topology_.parallel.pipeline = shape.pipeline;
  topology_.parallel.stages = shape.stages;
}

void Deployment::Place(int num_ranks) {
  if (OnThisHost(topology_)) return;
  placement_ = PlaceRanks(topology_, num_ranks, {});
  if (!placement_.problem.empty()) FailSettings("{}", placement_.problem);
}

void Deployment::Launch() {
  if (external()) {
    const std::string& keys = topology_.transport.keys;
    spdlog::info("waiting for {} workers: mpirun -np {} quire-worker --coordinator {}{}", group_->size(),
                 group_->size(), group_->data_endpoint(), keys.empty() ? "" : " --keys " + keys);
    return;
  }
  std::filesystem::create_directory(EpochDir());
  std::vector<std::string> command = network_.prefix;
  const auto mpirun =
      MpirunCommand(topology_, WorkerBinary(topology_), group_->data_endpoint(), epoch_, EpochDir(), placement_.nodes);
  command.insert(command.end(), mpirun.begin(), mpirun.end());
  spdlog::debug("launching: {}", fmt::join(command, " "));
  CheckMpirunAllowed();
  launcher_ = std::make_unique<MpirunProcess>(command);
}

void Deployment::EndWorkers() {
  launcher_.reset();  // workers of an ended epoch are fenced off: their frames are ignored
  launcher_ended_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(EpochDir(), ignored);  // a killed mpirun leaves files behind
}

/// Starts the first epoch. Throws SettingsError when a worker refuses the settings, so that the program ends with the
/// same status as when the program itself refuses settings.
void Deployment::BringUpFirst() {
  try {
    BringUp();
  } catch (const GroupFailure& loss) {
    if (loss.by_settings) throw SettingsError(loss.what());
    throw;
  }
}

void Deployment::BringUp() {
  Launch();
  group_->AwaitJoined(external() ? kExternalJoinDeadline : engine_ == nullptr ? kFirstJoinDeadline : kJoinDeadline);
  const BackendKind backend = ChooseBackend(topology_, group_->ranks());
  if (max_step_tokens_ == 0) max_step_tokens_ = ChooseStepTokens(topology_, backend);
  assignment_ = MakeAssignment(topology_, model_, group_->ranks(), backend);
  if (backend == BackendKind::kCpu && engine_ == nullptr)
    spdlog::info("numbers: {}", DescribeNumbers(topology_, assignment_.compute));
  assignment_.max_step_tokens = max_step_tokens_;
  assignment_.max_model_len = max_model_len_;
  assignment_.draft.max_model_len = std::min(assignment_.draft.max_model_len, max_model_len_);
  group_->Load(assignment_);
}

PoolSizes Deployment::ChoosePoolSizes() const {
  for (const std::string& warning : HostWarnings(topology_, assignment_.compute.backend, group_->ranks()))
    spdlog::warn("{}", warning);
  // Requests outlive an epoch, and a recurrent state may take more blocks on the new epoch's ranks than on the old
  // ones.
  const int needed = engine_ == nullptr ? 1 : engine_->BlocksNeeded(StateBlocks(group_->ranks()));
  return ChoosePools(topology_, assignment_.compute.backend, group_->ranks(),
                     {.max_model_len = max_model_len_, .blocks_needed = needed});
}

double Deployment::Reserve(const PoolSizes& pools) {
  const int host_blocks = pools.num_host_blocks > 0 ? pools.num_host_blocks + 1 : 0;  // plus the null block
  const double swap_seconds =
      group_->Start({pools.num_blocks, host_blocks, pools.state_blocks, GrammarMemoryOf(topology_, group_->ranks())});
  const RankInfo& largest = std::ranges::max(group_->ranks(), {}, &RankInfo::bytes_per_block);
  const double block_mib = static_cast<double>(largest.bytes_per_block) / (1 << 20);
  const bool even =
      std::ranges::min(group_->ranks(), {}, &RankInfo::bytes_per_block).bytes_per_block == largest.bytes_per_block;
  spdlog::info("KV cache: {} blocks of {} tokens, {:.1f} MiB per worker{}", pools.num_blocks - 1,
               topology_.cache.block_size, block_mib * pools.num_blocks, even ? "" : " at the most");
  if (pools.state_blocks > 0) spdlog::info("each sequence has a state, in {} of the blocks", pools.state_blocks);
  if (pools.num_host_blocks > 0) {
    spdlog::info("swap space: {} blocks, {:.1f} MiB per worker, {:.1f} us to move one", pools.num_host_blocks,
                 block_mib * pools.num_host_blocks, swap_seconds * 1e6);
  }
  return swap_seconds;
}

void Deployment::StartNextEpoch(bool same_shape) {
  EndWorkers();
  group_->BeginEpoch(++epoch_, topology_.parallel.num_ranks());
  BringUp();
  // A group of the same shape gets a pool of the old size, however much memory is free now.
  const PoolSizes pools = same_shape ? engine_->blocks().sizes() : ChoosePoolSizes();
  const double swap_seconds = Reserve(pools);
  engine_->StartEpoch(epoch_, pools, topology_.parallel.pipeline);
  engine_->SetSwapSpeed(swap_seconds);
}

void Deployment::Relaunch(const GroupFailure& loss) {
  bool same_shape = true;
  if (!OnThisHost(topology_)) {
    const auto now = HostHealth::Clock::now();
    // No program needs to listen on the port: a refused connection proves that the host is alive.
    const auto port = static_cast<uint16_t>(topology_.transport.mpi_ports[0]);
    const auto answers = [&](const std::string& host) { return HostAnswers(host, port, kProbePatience); };
    for (const std::string& host : SilentHosts(topology_.nodes, placement_.nodes, group_->ranks(), answers))
      host_health_.Lost({loss.cause, -1, host, loss.what()}, now, [](const std::string&) { return false; });
    host_health_.Lost(loss, now, answers);
    same_shape = PlaceWithout(host_health_.LeftOut(now));
  }
  StartNextEpoch(same_shape);
}

bool Deployment::PlaceWithout(const std::set<std::string>& left_out) {
  const GroupShape wanted = shape();
  for (const GroupShape& smaller : ShapesUpTo(wanted)) {
    Placement found = PlaceRanks(topology_, smaller.num_ranks(), left_out);
    if (!found.problem.empty()) continue;
    placement_ = std::move(found);
    if (!left_out.empty()) spdlog::warn("left out for now: {}", fmt::join(left_out, ", "));
    if (smaller == wanted) return true;
    spdlog::warn("the other hosts have room for {} workers instead of {}", smaller.num_ranks(), wanted.num_ranks());
    SetShape(smaller);
    return false;
  }
  spdlog::warn("nothing is left without {}: trying them again", fmt::join(left_out, ", "));
  placement_ = PlaceRanks(topology_, wanted.num_ranks(), {});
  return true;
}

void Deployment::Reshape(const GroupShape& wanted) {
  CheckShape(wanted);
  const GroupShape before = shape();
  const Placement place_before = placement_;
  Place(wanted.num_ranks());
  Stop("the workers are replaced");
  try {
    SetShape(wanted);
    StartNextEpoch(wanted == before);
  } catch (...) {
    SetShape(before);
    placement_ = place_before;
    throw;
  }
}

WorkerGroup::Options Deployment::GroupOptions() const {
  WorkerGroup::Options options;
  options.ranks.epoch = epoch_;
  if (topology_.transport.bind.empty()) {
    options.data_endpoint = "ipc://" + runtime_dir_.path() + "/data";
    options.ctrl_endpoint = CtrlEndpoint(options.data_endpoint, 0);
  } else {
    const bool v6 = topology_.transport.bind.find(':') != std::string::npos;
    const std::string address = v6 ? "[" + topology_.transport.bind + "]" : topology_.transport.bind;
    options.data_endpoint = fmt::format("tcp://{}:{}", address, topology_.transport.ports[0]);
    options.ctrl_endpoint = fmt::format("tcp://{}:{}", address, topology_.transport.ports[1]);
  }
  if (!topology_.transport.keys.empty()) {
    options.ranks.curve =
        std::make_shared<CurveServer>(LoadCoordinatorKeys(topology_.transport.keys, topology_.parallel.num_ranks()));
    for (const Topology::Node& node : topology_.nodes) options.ranks.curve->hosts().AddHost(node.host);
  }
  options.ranks.size = topology_.parallel.num_ranks();
  options.ranks.fingerprint = model_.Fingerprint();
  options.ranks.adopt = external();
  options.vocabulary = vocabulary_;
  return options;
}

void Deployment::CheckLauncher() {
  if (engine_ == nullptr && cancel_)
    throw GroupFailure(LossCause::kStopping, -1, "", "stopped before the workers were ready");
  if (launcher_ == nullptr || !launcher_->process.Ended()) return;
  // A worker's own report, which says more than mpirun's exit status, may still be on its way.
  const auto now = std::chrono::steady_clock::now();
  if (!launcher_ended_) launcher_ended_ = now;
  if (now - *launcher_ended_ <= std::chrono::milliseconds(100)) return;
  const auto culprit = launcher_->report.culprit();
  // With several hosts, and if mpirun's output does not name the failed one, the heartbeats that still arrive will show
  // the lost host.
  if (!culprit && !OnThisHost(topology_) && now - *launcher_ended_ <= kLastBeats) return;
  throw LossOfMpirun(culprit, *launcher_->process.Ended(), group_->ranks(), *launcher_ended_);
}

void Deployment::Stop(const std::string& reason) {
  group_->Shutdown(reason);
  if (launcher_ != nullptr && !launcher_->process.WaitFor(kOrderlyEndMillis)) launcher_->process.Stop();
}

}  // namespace quire
