#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/api/models/served_model.h"

namespace quire {

/// The models that one server serves, in the order of its settings. A server of one model has a list of one.
class ModelRoster {
 public:
  /// Opens every model. Divides the memory of this host among several models, or gives it to one that is loaded on
  /// request, which asks quire-worker for their sizes.
  /// Throws SettingsError.
  explicit ModelRoster(const Topology& topology);

  size_t size() const { return models_.size(); }
  ServedModel& at(size_t model) { return *models_[model]; }
  const ServedModel& at(size_t model) const { return *models_[model]; }
  /// The model of requests that name none.
  ServedModel& first() { return at(0); }
  /// The model that a client means by this name, which may be an alias or an adapter; null: none. An empty name means
  /// the first model.
  ServedModel* Find(std::string_view name);

  /// Starts the models of the start at once and returns when each is ready. Throws the error of the first one that is
  /// not. `on_lost` is called on some thread when a model has lost its workers for good.
  void Start(std::function<void(size_t model, const std::string& reason)> on_lost);
  /// Aborts all starts, now and later.
  void Cancel();
  void StopLoops();
  void StopWorkers(const std::string& reason);
  /// Ends all that was started. The models stay open.
  void End();

  /// The bytes of all models that have workers at the same time, at most; 0: one model, which takes what is free.
  int64_t room() const { return room_; }

  /// The models' own names, and their settings.
  std::vector<std::string> Names() const;
  std::vector<Topology> Topologies() const;
  /// The workers of all loaded models.
  int num_workers() const;
  /// True while a model has workers that can compute, or can be loaded.
  bool ready() const;

 private:
  void ShareMemory(const Topology& topology);

  std::vector<std::unique_ptr<ServedModel>> models_;
  int64_t room_ = 0;
};

}  // namespace quire
