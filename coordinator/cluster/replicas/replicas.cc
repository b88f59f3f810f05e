#include "coordinator/cluster/replicas/replicas.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <future>
#include <utility>

#include "coordinator/cluster/launch/placement.h"
#include "coordinator/cluster/replicas/replica_rest.h"
#include "coordinator/log/log.h"

namespace quire {

Replicas::Replicas(const Topology& topology, const ModelFiles& model, const std::atomic<bool>& cancel,
                   std::shared_ptr<const Vocabulary> vocabulary, EventFeed& events)
    : events_(events),
      disk_(topology.cache.disk.dir.empty() ? nullptr : std::make_unique<KvDisk>(topology.cache.disk)),
      epochs_seen_(static_cast<size_t>(topology.parallel.replicas), 0),
      num_replicas_(topology.parallel.replicas),
      block_size_(topology.cache.block_size),
      sketch_(topology.cache.block_size),
      recoveries_seen_(static_cast<size_t>(topology.parallel.replicas), 0) {
  const auto start = [&, this, model_name = LogName::Current()](int r) {
    const std::string number = topology.parallel.replicas > 1 ? fmt::format("replica {}", r) : "";
    const LogName named(model_name + (model_name.empty() || number.empty() ? "" : " ") + number);
    Topology one = ReplicaTopology(topology, r);
    if (topology.parallel.replicas > 1) one.nodes = NodesOfReplica(topology, r);
    auto replica = std::make_unique<Replica>(std::move(one), model, cancel, vocabulary, events_, disk_.get());
    replica->Begin(*this);
    return replica;
  };
  std::vector<std::future<std::unique_ptr<Replica>>> others;
  for (int r = 1; r < topology.parallel.replicas; ++r) {
    std::packaged_task<std::unique_ptr<Replica>()> task([start, r] { return start(r); });
    others.push_back(task.get_future());
    starters_.emplace_back([this, task = std::move(task)]() mutable {
      task();
      stopped_.wait(false);
    });
  }
  std::exception_ptr failure;
  try {
    replicas_.push_back(start(0));
  } catch (...) {
    failure = std::current_exception();
  }
  for (auto& other : others) {
    try {
      replicas_.push_back(other.get());
    } catch (...) {
      if (failure == nullptr) failure = std::current_exception();
    }
  }
  if (failure == nullptr) return;
  EndStarters();
  std::rethrow_exception(failure);
}

Replicas::~Replicas() {
  StopLoops();
  EndStarters();
}

void Replicas::EndStarters() {
  replicas_.clear();
  stopped_ = true;
  stopped_.notify_all();
  for (std::thread& starter : starters_) starter.join();
  starters_.clear();
}

void Replicas::Begin(std::function<void(const std::string&)> on_end) {
  std::vector<Replica*> all;
  for (const auto& replica : replicas_) all.push_back(replica.get());
  migrations_ = std::make_unique<Migrations>(all);
  rebalancer_ = std::make_unique<Rebalancer>(all, *migrations_);
  begun_ = true;
  const std::lock_guard lock(mutex_);
  on_end_ = std::move(on_end);
  if (num_lost_ == num_replicas_) on_end_(last_loss_);
}

void Replicas::OnLost(int replica, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  last_loss_ = reason;
  if (++num_lost_ < num_replicas_) {
    spdlog::error("replica {} is lost: {}; {} of {} are left, and its workers are started again later", replica, reason,
                  num_replicas_ - num_lost_, num_replicas_);
  } else if (on_end_) {
    on_end_(reason);
  }
}

bool Replicas::MayReturn() const {
  const std::lock_guard lock(mutex_);
  return num_lost_ < num_replicas_;
}

void Replicas::OnReturned(int replica) {
  const std::lock_guard lock(mutex_);
  --num_lost_;
  spdlog::info("replica {} serves again; {} of {} serve", replica, num_replicas_ - num_lost_, num_replicas_);
}

void Replicas::OnSlowRestart(int replica, Engine& engine) {
  const auto is_ready = [](const auto& other) { return other->serving() && !other->recovering(); };
  if (begun_ && !engine.idle() && std::ranges::any_of(replicas_, is_ready)) migrations_->Empty(replica, engine);
}

void Replicas::OnAbandoned(int replica, Engine& engine) {
  if (begun_ && num_replicas_ > 1) migrations_->Empty(replica, engine);
}

void Replicas::OnBlocksReport(int replica, Rank rank, const BlocksReport& report) {
  migrations_->OnReport(replica, rank, report);
}

void Replicas::OnRound(int replica, Engine& engine) {
  if (num_replicas_ == 1) return;
  const EpochId seen = std::exchange(epochs_seen_[static_cast<size_t>(replica)], engine.epoch());
  if (!begun_) return;
  if (seen != 0 && seen != engine.epoch()) migrations_->OnEpochLost(replica);
  migrations_->DropAbandoned(replica, engine);
  rebalancer_->OnRound(replica, engine);
}

void Replicas::FinishSaving(double most_seconds) {
  const double end = EngineLoop::Now() + most_seconds;
  for (const auto& replica : replicas_) quire::FinishSaving(*replica, end);
}

std::optional<int64_t> Replicas::FreeMemory(double most_seconds) {
  const double end = EngineLoop::Now() + most_seconds;
  std::optional<int64_t> bytes = 0;
  for (const auto& replica : replicas_) {
    const std::optional<int64_t> kept = quire::FreeMemory(*replica, end);
    bytes = bytes && kept ? std::optional(*bytes + *kept) : std::nullopt;
  }
  return bytes;
}

void Replicas::StopLoops() {
  for (const auto& replica : replicas_) replica->StopLoop();
  if (migrations_ != nullptr) migrations_->Clear();
}

void Replicas::StopWorkers(const std::string& reason) {
  for (const auto& replica : replicas_) replica->StopWorkers(reason);
}

bool Replicas::serving() const {
  return std::ranges::any_of(replicas_, [](const auto& replica) { return replica->serving(); });
}

bool Replicas::ready() const {
  return std::ranges::any_of(replicas_,
                             [](const auto& replica) { return replica->serving() && !replica->recovering(); });
}

bool Replicas::recovering() const {
  return std::ranges::any_of(replicas_, [](const auto& replica) { return replica->recovering(); });
}

std::vector<ReplicaView> Replicas::Views() const {
  std::vector<ReplicaView> views;
  for (const auto& replica : replicas_) views.push_back(replica->view());
  return views;
}

void Replicas::Submit(std::string_view salt, std::span<const TokenId> prompt, int64_t tokens, const std::string& client,
                      const GrammarSource& grammar, Arrival arrival) {
  if (size() == 1) return at(0).PostCall(tokens, client, grammar, std::move(arrival));
  const PrefixSketch::Hashes hashes = sketch_.HashesOf(salt, prompt);
  std::vector<ReplicaView> views = Views();
  for (int r = 0; r < size(); ++r) {
    int& seen = recoveries_seen_[static_cast<size_t>(r)];
    const int recoveries = at(r).loop().num_recoveries();
    if (seen != recoveries) sketch_.Forget(r);
    seen = recoveries;
    views[static_cast<size_t>(r)].cached_blocks = sketch_.Leading(hashes, r);
  }
  const int blocks = static_cast<int>((tokens + block_size_ - 1) / block_size_);
  const int chosen = ChooseReplica(views, {blocks, block_size_}).value_or(0);  // if none serves, any engine refuses
  sketch_.Note(hashes, chosen);
  at(chosen).PostCall(tokens, client, grammar, std::move(arrival));
}

void Replicas::Cancel(const std::vector<RequestId>& ids) {
  for (const auto& replica : replicas_) {
    replica->loop().Post([ids](Engine& engine) {
      for (const RequestId id : ids) engine.Cancel(id);
    });
  }
}

void Replicas::Withdraw(const std::vector<RequestId>& ids,
                        const std::function<void(std::vector<std::unique_ptr<Request>>)>& taken) {
  for (const auto& replica : replicas_) {
    replica->loop().Post([ids, taken](Engine& engine) {
      std::vector<std::unique_ptr<Request>> requests;
      for (const RequestId id : ids) {
        std::optional<Departure> departure = engine.Depart(id, 0, 0);
        if (departure) requests.push_back(std::move(departure->request));
      }
      taken(std::move(requests));
    });
  }
}

}  // namespace quire
