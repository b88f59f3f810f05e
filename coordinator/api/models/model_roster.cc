#include "coordinator/api/models/model_roster.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <future>
#include <utility>

#include "comm/base/error.h"
#include "coordinator/cluster/hosts/model_shares.h"

namespace quire {

namespace {

double InMib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// Creates a directory that only this user may read, if it does not exist. Throws Error when that fails.
void MakeDirectory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) Fail("cannot make {}: {}", path, std::strerror(errno));
}

}  // namespace

ModelRoster::ModelRoster(const Topology& topology) {
  const bool keeps_journals = NumModels(topology) > 1 && !topology.journal.empty();
  if (keeps_journals) ReadAsSettings([&] { MakeDirectory(topology.journal); });
  for (size_t i = 0; i < NumModels(topology); ++i) {
    const Topology one = ModelTopology(topology, i);
    if (keeps_journals) ReadAsSettings([&] { MakeDirectory(one.journal); });
    models_.push_back(std::make_unique<ServedModel>(one, i, NumModels(topology) > 1 ? one.model.name : ""));
  }
  const bool on_request = first().topology().life.load == LoadMoment::kRequest;
  if (size() > 1 || on_request) ReadAsSettings([&] { ShareMemory(topology); });
}

void ModelRoster::ShareMemory(const Topology& topology) {
  std::vector<const ModelFiles*> files;
  for (const auto& model : models_) files.push_back(&model->files());
  const ListPlan list = PlanModels(topology, files);
  room_ = list.room;
  if (!list.warning.empty()) spdlog::warn("{}", list.warning);
  for (size_t i = 0; i < size(); ++i) {
    models_[i]->SetMemory(list.needs[i], list.kv[i], list.limits[i]);
    spdlog::info("model {}: {:.0f} MiB of weights and {:.0f} MiB of KV cache, of {:.0f} MiB for all models",
                 models_[i]->name(), InMib(list.needs[i].weights), InMib(list.kv[i]), InMib(list.room));
  }
}

ServedModel* ModelRoster::Find(std::string_view name) {
  if (name.empty()) return &first();
  const auto found = std::ranges::find_if(
      models_, [&](const auto& model) { return std::ranges::count(model->Names(), name) > 0; });
  return found == models_.end() ? nullptr : found->get();
}

void ModelRoster::Start(std::function<void(size_t model, const std::string& reason)> on_lost) {
  std::vector<std::future<void>> starts;
  for (const auto& model : models_) {
    if (model->topology().life.load == LoadMoment::kRequest) continue;
    starts.push_back(std::async(std::launch::async, [on_lost, one = model.get()] {
      one->Start([on_lost, one](const std::string& reason) { on_lost(one->index(), reason); });
    }));
  }
  std::exception_ptr failure;
  for (std::future<void>& start : starts) {
    try {
      start.get();
    } catch (...) {
      if (failure == nullptr) failure = std::current_exception();
    }
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

void ModelRoster::Cancel() {
  for (const auto& model : models_) model->CancelStart();
}

void ModelRoster::StopLoops() {
  for (const auto& model : models_) model->StopLoops();
}

void ModelRoster::StopWorkers(const std::string& reason) {
  for (const auto& model : models_) model->StopWorkers(reason);
}

void ModelRoster::End() {
  for (const auto& model : models_) model->End();
}

std::vector<std::string> ModelRoster::Names() const {
  std::vector<std::string> names;
  for (const auto& model : models_) names.push_back(model->name());
  return names;
}

std::vector<Topology> ModelRoster::Topologies() const {
  std::vector<Topology> topologies;
  for (const auto& model : models_) topologies.push_back(model->topology());
  return topologies;
}

int ModelRoster::num_workers() const {
  int workers = 0;
  for (const auto& model : models_) {
    if (model->phase() != LifePhase::kLoaded) continue;
    workers += model->topology().parallel.replicas * model->topology().parallel.num_ranks();
  }
  return workers;
}

bool ModelRoster::ready() const {
  return std::ranges::any_of(models_, [](const auto& model) {
    const ModelState state = model->state();
    return state != ModelState::kLost && state != ModelState::kRestarting;
  });
}

}  // namespace quire
