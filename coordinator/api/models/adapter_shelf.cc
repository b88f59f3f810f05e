#include "coordinator/api/models/adapter_shelf.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "comm/model/adapter_files.h"
#include "comm/wire/step_plan.h"
#include "coordinator/http/api_error.h"

namespace quire {

namespace {

double InMebibytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// Returns the adapter number that is tried first for contents with this fingerprint. Equal contents thus mostly get
/// the same number, so that KV blocks that were cached with these contents are found again.
int NumberOf(const std::string& fingerprint) {
  constexpr uint64_t kNumbers = (uint64_t{1} << 30);
  const uint64_t hash = std::hash<std::string>()(fingerprint);
  return kMostListedAdapters + 1 + static_cast<int>(hash % kNumbers);
}

}  // namespace

/// The state that the AdapterShelf and the adapters in use share.
struct AdapterShelf::State : std::enable_shared_from_this<AdapterShelf::State> {
  /// An adapter's contents, as the ranks have them. Several names may refer to the same contents.
  struct Contents {
    AdapterOrder order;
    int64_t bytes = 0;
    std::weak_ptr<const void> lease;
    bool ready = false;  // true: all ranks have the contents
  };
  State(const Topology& topology, const ModelFiles& model)
      : lora(topology.lora), files(model), directories(topology.lora) {}

  std::shared_ptr<const void> Lease(const AdapterOrder& order, int64_t bytes);
  std::shared_ptr<const ServedAdapter> Place(std::shared_ptr<const ServedAdapter> served);
  bool Shares(ServedAdapter& served);
  void Drop(int number, uint64_t ticket);
  void Send(const AdapterOrder& order, const Done& done);
  void Lost(int number, const std::string& problem);
  int FreeNumber(const std::string& fingerprint) const;
  void CheckRoom(const std::string& name, const FoundAdapter& found, bool in_place) const;

  const Topology::Lora lora;
  const ModelFiles& files;
  const AdapterDirectories directories;
  mutable std::mutex mutex;  // guards all members below
  Replicas* replicas = nullptr;
  std::map<std::string, std::shared_ptr<const ServedAdapter>> by_name;
  std::vector<std::string> order_of_names;
  std::set<std::string> coming;  // names that are being loaded
  std::map<int, Contents> contents;
  uint64_t last_ticket = 0;
};

AdapterShelf::AdapterShelf(const Topology& topology, const ModelFiles& files)
    : state_(std::make_shared<State>(topology, files)) {
  for (size_t i = 0; i < topology.model.adapters.size(); ++i) {
    const AdapterSetting& listed = topology.model.adapters[i];
    const AdapterFiles& adapter = files.adapters().at(i);
    CheckAdapterRank(adapter.rank(), topology.lora.max_rank, listed.path);
    auto served = std::make_shared<ServedAdapter>();
    served->name = listed.name;
    served->path = listed.path;
    served->number = static_cast<int>(i) + 1;
    served->rank = adapter.rank();
    served->bytes = adapter.bytes();
    state_->by_name[listed.name] = std::move(served);
    state_->order_of_names.push_back(listed.name);
  }
}

AdapterShelf::~AdapterShelf() { End(); }

void AdapterShelf::Begin(Replicas& replicas) {
  const std::lock_guard lock(state_->mutex);
  state_->replicas = &replicas;
  // Clients already use these adapters. An adapter that the new ranks cannot read is no longer served (Lost).
  for (auto& [number, contents] : state_->contents) state_->Send(contents.order, nullptr);
}

void AdapterShelf::End() {
  const std::lock_guard lock(state_->mutex);
  state_->replicas = nullptr;
}

std::shared_ptr<const ServedAdapter> AdapterShelf::Find(const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->by_name.find(name);
  return found == state_->by_name.end() ? nullptr : found->second;
}

std::vector<std::string> AdapterShelf::Names() const {
  const std::lock_guard lock(state_->mutex);
  return state_->order_of_names;
}

std::vector<std::shared_ptr<const ServedAdapter>> AdapterShelf::Later() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::shared_ptr<const ServedAdapter>> later;
  for (const std::string& name : state_->order_of_names) {
    const auto& adapter = state_->by_name.at(name);
    if (adapter->number > kMostListedAdapters) later.push_back(adapter);
  }
  return later;
}

int64_t AdapterShelf::used_bytes() const {
  const std::lock_guard lock(state_->mutex);
  int64_t bytes = 0;
  for (const auto& [number, contents] : state_->contents) bytes += contents.bytes;
  return bytes;
}

FoundAdapter AdapterShelf::Open(const std::string& path) const { return state_->directories.Open(path, state_->files); }

int AdapterShelf::State::FreeNumber(const std::string& fingerprint) const {
  int number = NumberOf(fingerprint);
  while (contents.contains(number)) ++number;
  return number;
}

/// Returns an object. The ranks hold the contents while the object lives. Called with the mutex held; the object's
/// destruction locks the mutex.
std::shared_ptr<const void> AdapterShelf::State::Lease(const AdapterOrder& order, int64_t bytes) {
  const auto drop = [state = shared_from_this(), number = order.number, ticket = order.ticket](const void*) {
    state->Drop(number, ticket);
  };
  std::shared_ptr<const void> lease(this, drop);
  contents[order.number] = {order, bytes, lease};
  return lease;
}

/// Makes the ranks drop the contents with this number, unless contents with another ticket have the number by now.
/// Called when the last user of the contents is gone.
void AdapterShelf::State::Drop(int number, uint64_t ticket) {
  const std::lock_guard lock(mutex);
  const auto found = contents.find(number);
  if (found == contents.end() || found->second.order.ticket != ticket) return;
  spdlog::info("adapter {} leaves the workers' memory", found->second.order.name);
  contents.erase(found);
  if (replicas == nullptr) return;
  for (int r = 0; r < replicas->size(); ++r)
    replicas->at(r).PostAdapter([ticket](AdapterGate& gate) { gate.Unload(ticket); });
}

/// Stops serving an adapter because the ranks that replace lost ranks cannot read the adapter.
void AdapterShelf::State::Lost(int number, const std::string& problem) {
  std::vector<std::shared_ptr<const ServedAdapter>> gone;  // destroyed after the mutex is unlocked
  const std::lock_guard lock(mutex);
  for (auto served = by_name.begin(); served != by_name.end();) {
    if (served->second->number != number) {
      ++served;
      continue;
    }
    spdlog::error("adapter {} is not served any more: {}", served->first, problem);
    std::erase(order_of_names, served->first);
    gone.push_back(std::move(served->second));
    served = by_name.erase(served);
  }
}

/// Sends the order to all replicas. Calls `done` when each replica has answered. A null `done` means that the adapter
/// was served before; it counts as lost when a replica cannot read it. The caller must hold the mutex.
void AdapterShelf::State::Send(const AdapterOrder& order, const Done& done) {
  struct Answers {
    std::mutex mutex;
    int missing;
    std::string problem;
  };
  const int count = replicas->size();
  const auto answers = std::make_shared<Answers>();
  answers->missing = count;
  for (int r = 0; r < count; ++r) {
    AdapterGate::Done answered;
    if (done != nullptr) {
      answered = [answers, done, r, count](const std::string& problem, int64_t) {
        {
          const std::lock_guard lock(answers->mutex);
          if (!problem.empty()) answers->problem = count > 1 ? fmt::format("replica {}, {}", r, problem) : problem;
          if (--answers->missing > 0) return;
        }
        done(answers->problem);
      };
    }
    const auto lost = [state = shared_from_this(), number = order.number](const std::string& problem) {
      state->Lost(number, problem);
    };
    replicas->at(r).PostAdapter([=](AdapterGate& gate) { gate.Load(order, answered, lost); });
  }
}

void AdapterShelf::State::CheckRoom(const std::string& name, const FoundAdapter& found, bool in_place) const {
  const auto old = by_name.find(name);
  if (coming.contains(name)) throw ApiError(409, fmt::format("the adapter \"{}\" is being loaded already", name));
  if (old != by_name.end() && old->second->number <= kMostListedAdapters)
    throw ApiError(400, fmt::format("the adapter \"{}\" is listed for the start (--lora-modules) and stays", name),
                   "lora_name");
  if (old != by_name.end() && !in_place)
    throw ApiError(400, fmt::format("the adapter \"{}\" has already been loaded; load_inplace replaces it", name),
                   "lora_name");
  const auto is_later = [](const auto& served) { return served.second->number > kMostListedAdapters; };
  const auto loaded = std::ranges::count_if(by_name, is_later) + std::ssize(coming) - (old != by_name.end());
  if (loaded >= lora.max_loaded)
    throw ApiError(400, fmt::format("{} adapters are loaded, and lora.max_loaded (--max-cpu-loras) is {}; unload one",
                                    loaded, lora.max_loaded));
  int64_t bytes = 0;
  for (const auto& [number, each] : contents) {
    if (each.order.fingerprint == found.fingerprint) return;  // the content is loaded, and its memory is counted
    bytes += each.bytes;
  }
  if (bytes + found.bytes > lora.memory_bytes)
    throw ApiError(400, fmt::format("the adapter takes {:.1f} MiB, and of lora.memory (--lora-memory), {:.1f} MiB, "
                                    "other adapters have {:.1f} MiB; unload one, and wait for its requests to end",
                                    InMebibytes(found.bytes), InMebibytes(lora.memory_bytes), InMebibytes(bytes)));
}

/// Lets requests find the adapter by its name. Returns the adapter that had the name before. The caller must destroy
/// the returned adapter while it does not hold the mutex.
std::shared_ptr<const ServedAdapter> AdapterShelf::State::Place(std::shared_ptr<const ServedAdapter> served) {
  auto& place = by_name[served->name];
  if (place == nullptr) order_of_names.push_back(served->name);
  return std::exchange(place, std::move(served));
}

/// True when the ranks already have equal contents, under another name or for requests that still run; `served` then
/// uses those contents. Throws ApiError while equal contents are being loaded.
bool AdapterShelf::State::Shares(ServedAdapter& served) {
  for (const auto& [number, each] : contents) {
    if (each.order.fingerprint != served.contents) continue;
    served.lease = each.lease.lock();
    if (served.lease == nullptr) continue;  // the ranks are about to drop these contents
    if (!each.ready) throw ApiError(409, "an adapter with the same contents is being loaded; try again later");
    served.number = number;
    return true;
  }
  return false;
}

void AdapterShelf::Load(const std::string& name, const FoundAdapter& found, bool in_place, Done done) {
  State& state = *state_;
  auto served = std::make_shared<ServedAdapter>();
  served->name = name;
  served->path = found.path;
  served->contents = found.fingerprint;
  served->rank = found.rank;
  served->bytes = found.bytes;
  std::shared_ptr<const ServedAdapter> old;  // destroyed after the unlock
  std::unique_lock lock(state.mutex);
  if (state.replicas == nullptr) throw ApiError(503, "the model's workers are not there");
  state.CheckRoom(name, found, in_place);
  if (state.Shares(*served)) {
    old = state.Place(std::move(served));
    lock.unlock();
    return done("");
  }
  served->number = state.FreeNumber(found.fingerprint);
  const AdapterOrder order{++state.last_ticket, served->number, name, found.path, found.fingerprint, found.file_bytes};
  served->lease = state.Lease(order, found.bytes);
  state.coming.insert(name);
  state.Send(order, [shared = state_, served = std::shared_ptr<const ServedAdapter>(served),
                     done = std::move(done)](const std::string& problem) {
    std::shared_ptr<const ServedAdapter> before;
    {
      const std::lock_guard held(shared->mutex);
      shared->coming.erase(served->name);
      if (problem.empty()) {
        shared->contents.at(served->number).ready = true;
        before = shared->Place(served);
      }
    }
    done(problem);
  });
}

void AdapterShelf::Unload(const std::string& name) {
  std::shared_ptr<const ServedAdapter> gone;  // destroyed after the unlock
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->by_name.find(name);
  if (found == state_->by_name.end())
    throw ApiError(404, fmt::format("the adapter \"{}\" is not loaded", name), "lora_name");
  if (found->second->number <= kMostListedAdapters)
    throw ApiError(400, fmt::format("the adapter \"{}\" is listed for the start (--lora-modules) and stays", name),
                   "lora_name");
  gone = std::move(found->second);
  state_->by_name.erase(found);
  std::erase(state_->order_of_names, name);
}

}  // namespace quire
