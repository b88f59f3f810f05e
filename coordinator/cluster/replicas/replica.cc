#include "coordinator/cluster/replicas/replica.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/host_name.h"

namespace quire {

namespace {

constexpr double kPublishEverySeconds = 0.002;  // time between calls, which look at every request

/// Creates the parent directory of a replica's journal: several replicas use subdirectories of the configured
/// directory.
void MakeParent(const std::string& directory) {
  const std::string parent = directory.substr(0, directory.rfind('/'));
  if (::mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST) Fail("cannot make {}: {}", parent, std::strerror(errno));
}

}  // namespace

Replica::Replica(Topology topology, const ModelFiles& model, const std::atomic<bool>& cancel,
                 std::shared_ptr<const Vocabulary> vocabulary, EventFeed& feed, KvDisk* disk)
    : topology_(std::move(topology)),
      deployment_(topology_, model, cancel, std::move(vocabulary), disk),
      feed_(feed),
      watcher_(feed, engine(), topology_.parallel.replica),
      gate_(deployment_.group()),
      adapters_(deployment_.group()),
      cache_log_(engine().blocks().block_size()) {
  engine().set_watcher(&watcher_);
  if (!topology_.journal.empty()) {
    if (topology_.parallel.replicas > 1) MakeParent(topology_.journal);
    journal_.emplace(topology_.journal, JournalLimits{}, engine());
    engine().set_observer(&*journal_);
  }
  if (topology_.kv_events.enabled) {
    CacheEventSource source{index(), engine().blocks().block_size(), {}};
    for (const AdapterSetting& adapter : topology_.model.adapters) source.adapters.push_back(adapter.name);
    cache_events_ = std::make_unique<CacheEventPublisher>(topology_.kv_events, std::move(source));
    adapters_.set_on_came([this](const AdapterOrder& order) { cache_events_->NameAdapter(order.number, order.name); });
    engine().AddCacheListener(&cache_log_);
  }
  Publish(engine());
}

Replica::~Replica() {
  StopLoop();
  tier_.reset();  // before the loop is destroyed, because the tier's threads wake the loop
}

void Replica::BeginTier() {
  if (deployment_.kv_store() == nullptr) return;
  const auto wake = [this] {
    if (loop_ != nullptr) loop_->Post([](Engine&) {});
  };
  tier_ = std::make_unique<KvTier>(
      deployment_.kv_store(), engine(), group(),
      GroupBlocks::Options{.topology = topology_,
                           .local_endpoint = fmt::format("ipc://{}/kv", deployment_.runtime_dir()),
                           .rank_endpoint = [this](Rank rank) { return BlockEndpoint(rank); },
                           .wake = wake});
}

void Replica::Begin(ReplicaListener& listener) {
  listener_ = &listener;
  BeginTier();
  loop_ = std::make_unique<EngineLoop>(engine(), group(), static_cast<EngineLoopHost&>(*this));
}

void Replica::BetweenSteps(Engine& engine) {
  Publish(engine);
  PublishEpoch(engine);
  if (cache_events_ != nullptr) cache_events_->Publish(cache_log_.Take());
  if (tier_ != nullptr) tier_->Round(EngineLoop::Now());
  adapters_.Round(engine);
  gate_.Round(engine, EngineLoop::Now());
  listener_->OnRound(index(), engine);
}

void Replica::Relaunch(const GroupFailure& loss) {
  feed_.Publish(EventKind::kWorkersLost, [&] { return ServerEvent{.replica = index(), .text = loss.what()}; });
  deployment_.Relaunch(loss);
}

bool Replica::Return(const GroupFailure& loss) {
  if (!listener_->MayReturn()) return false;
  Relaunch(loss);
  listener_->OnReturned(index());
  return true;
}

void Replica::Abandon(Engine& engine) {
  if (tier_ != nullptr) tier_->Open();
  adapters_.Open();
  gate_.Open(engine);
  listener_->OnAbandoned(index(), engine);
}

void Replica::PublishEpoch(const Engine& engine) {
  if (std::exchange(told_epoch_, engine.epoch()) == engine.epoch()) return;
  feed_.Publish(EventKind::kEpoch, [&] {
    return ServerEvent{.replica = index(),
                       .text = fmt::format("epoch {} begins with {} workers and {} blocks", engine.epoch(),
                                           group().size(), engine.blocks().num_usable())};
  });
}

void Replica::StopLoop() {
  if (loop_ != nullptr) loop_->Stop();
}

std::function<void(Engine&)> Replica::Announce(int64_t tokens, std::function<void(Engine&)> task) {
  {
    const std::lock_guard lock(mutex_);
    tokens_on_their_way_ += tokens;
  }
  // The tokens count as arrived when the last copy of the task is destroyed, however the task ends.
  std::shared_ptr<void> on_its_way(nullptr, [arrived = tokens_arrived_, tokens](void*) { *arrived += tokens; });
  return [on_its_way = std::move(on_its_way), task = std::move(task)](Engine& engine) { task(engine); };
}

void Replica::PostCall(int64_t tokens, const std::string& client, const GrammarSource& grammar, Arrival arrival) {
  arrival.submit = Announce(tokens, std::move(arrival.submit));
  const auto enter = [this, client, grammar](Arrival ready, Engine& engine) {
    grammar ? gate_.Pass(client, grammar, std::move(ready)) : ready.submit(engine);
  };
  loop_->Post([this, client, enter, arrival = std::move(arrival)](Engine& engine) {
    const bool waits = tier_ != nullptr && arrival.prompts && loop_->serving();
    if (!waits) return enter(arrival, engine);
    tier_->Pass(
        client, arrival, [enter, &engine](Arrival ready) { enter(std::move(ready), engine); }, EngineLoop::Now());
  });
}

void Replica::PostAdapter(std::function<void(AdapterGate&)> order) {
  loop_->Post([this, order = std::move(order)](Engine&) { order(adapters_); });
}

ReplicaView Replica::view() const {
  ReplicaView view;
  {
    const std::lock_guard lock(mutex_);
    view = view_;
    view.queued_tokens += tokens_on_their_way_;
  }
  view.serving = serving();
  view.recovering = recovering();
  return view;
}

BlockShape Replica::block_shape() const {
  const std::lock_guard lock(mutex_);
  return shape_;
}

std::string Replica::BlockEndpoint(Rank rank) {
  return fmt::format("ipc://{}/b{}.{}", deployment_.runtime_dir(), engine().epoch(), rank);
}

void Replica::PublishShape(const Engine& engine) {
  BlockShape shape;
  shape.cut = deployment_.assignment().cut();
  shape.compute = deployment_.assignment().compute;
  const std::string host = OwnHostName();
  shape.on_this_host = std::ranges::all_of(group().ranks(), [&](const RankInfo& rank) { return rank.host == host; });
  shape.on_network = !topology_.transport.bind.empty();
  shape.ports = topology_.transport.mpi_ports;
  shape.keys = group().worker_keys();
  shape.host_blocks = engine.blocks().host_pool().num_usable();
  shape.state_blocks = engine.blocks().states().num_blocks();
  shape.windowed = engine.blocks().sliding_window() > 0;
  const std::lock_guard lock(mutex_);
  shape_ = std::move(shape);
  shape_epoch_ = engine.epoch();
}

void Replica::Publish(const Engine& engine) {
  if (shape_epoch_ != engine.epoch()) PublishShape(engine);
  const double now = EngineLoop::Now();
  {
    const std::lock_guard lock(mutex_);
    if (now < next_publish_ && *tokens_arrived_ == 0) return;
  }
  ReplicaView view;
  view.prefills = index() < topology_.parallel.prefill_replicas;
  for (const auto& [id, request] : engine.requests()) view.queued_tokens += request->NumUncomputed();
  for (const Request* request : engine.scheduler().running())
    view.running += static_cast<int>(request->sequences.size());
  view.waiting = engine.scheduler().num_waiting();
  view.free_blocks = engine.blocks().num_free();
  view.usable_blocks = engine.blocks().num_usable();
  view.free_host_blocks = engine.blocks().host_pool().num_free();
  view.preemptions = engine.scheduler().num_preemptions();
  const std::lock_guard lock(mutex_);
  view_ = view;
  tokens_on_their_way_ -= tokens_arrived_->exchange(0);
  next_publish_ = now + kPublishEverySeconds;
}

}  // namespace quire
