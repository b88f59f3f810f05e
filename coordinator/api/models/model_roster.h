#pragma once

#include <atomic>
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
  /// Opens every model. Divides the memory of this host among several models, which asks quire-worker for their sizes.
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

  /// Starts all models at once and returns when each is ready. Throws the error of the first one that is not. `on_end`
  /// is called once, on some thread, when every model has lost its workers for good.
  void Start(const std::atomic<bool>& cancel, std::function<void(const std::string&)> on_end);
  void StopLoops();
  void StopWorkers(const std::string& reason);
  /// Ends all that was started. The models stay open.
  void End();

  /// The models' own names, and their settings.
  std::vector<std::string> Names() const;
  std::vector<Topology> Topologies() const;
  int num_workers() const;
  /// True while a model has workers that can compute.
  bool ready() const;

 private:
  void ShareMemory(const Topology& topology);
  void OnLost(const ServedModel& model, const std::string& reason);

  std::vector<std::unique_ptr<ServedModel>> models_;
  std::function<void(const std::string&)> on_end_;
  std::atomic<size_t> num_lost_{0};
};

}  // namespace quire
