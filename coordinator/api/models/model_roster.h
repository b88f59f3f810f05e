#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/api/models/served_model.h"

namespace quire {

/// The models, at least one, that one server serves, in the order of its settings.
class ModelRoster {
 public:
  /// Opens every model. If there are several models, or one that is loaded on request, quire-worker computes their
  /// sizes, and this host's memory is divided among them. Throws SettingsError when a model cannot be opened, or when
  /// the models do not fit into memory.
  explicit ModelRoster(const Topology& topology);

  size_t size() const { return models_.size(); }
  ServedModel& at(size_t model) { return *models_[model]; }
  const ServedModel& at(size_t model) const { return *models_[model]; }
  /// Returns the first model, which serves requests that name no model.
  ServedModel& first() { return at(0); }
  /// Returns the model with this name, alias or adapter; null when there is none. An empty name means the first model.
  ServedModel* Find(std::string_view name);

  /// Starts all models that are not loaded on request, in parallel, and returns when all are ready. Throws the error of
  /// the first model that fails. `on_lost` is called on some thread when a model has lost its workers for good.
  void Start(std::function<void(size_t model, const std::string& reason)> on_lost);
  /// Aborts all present and later starts. Any thread may call it.
  void Cancel();
  void StopLoops();
  void StopWorkers(const std::string& reason);
  /// Ends the workers and threads of all models. The models' files and texts stay usable.
  void End();

  /// Returns the most bytes of all models that have workers at the same time; 0 for a single model that is loaded at
  /// the start, which takes the free memory.
  int64_t room() const { return room_; }

  /// Return the models' own names, and the settings of each model.
  std::vector<std::string> Names() const;
  std::vector<Topology> Topologies() const;
  /// Returns the number of workers of all loaded models.
  int num_workers() const;
  /// True while some model is neither lost nor restarting (ModelState).
  bool ready() const;

 private:
  void ShareMemory(const Topology& topology);

  std::vector<std::unique_ptr<ServedModel>> models_;
  int64_t room_ = 0;
};

}  // namespace quire
