#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "coordinator/api/models/adapter_directories.h"
#include "coordinator/api/requests/served_adapter.h"
#include "coordinator/cluster/replicas/replicas.h"

namespace quire {

/// The LoRA adapters of one model: the adapters listed in the settings, and adapters that operators load while the
/// model is served. All methods may be called on any thread.
class AdapterShelf {
 public:
  /// Called when a load has ended, with "" or the reason why the adapter is not served.
  using Done = std::function<void(const std::string& problem)>;

  /// Throws Error for a listed adapter beyond lora.max_rank, and for a directory of lora.dirs that is missing.
  AdapterShelf(const Topology& topology, const ModelFiles& files);
  ~AdapterShelf();

  /// Sends the loaded adapters to the replicas. Call it when the model's workers are ready; the replicas must live
  /// until End.
  void Begin(Replicas& replicas);
  void End();

  /// Returns the adapter with this name; null when there is none.
  std::shared_ptr<const ServedAdapter> Find(const std::string& name) const;
  std::vector<std::string> Names() const;
  /// Return the adapters that were loaded while serving, and the bytes of all adapters that some rank may still hold.
  std::vector<std::shared_ptr<const ServedAdapter>> Later() const;
  int64_t used_bytes() const;

  /// Opens an adapter in one of the allowed directories and reads the whole adapter. Throws Error when the path leads
  /// out of the directories, or the adapter does not fit the model.
  FoundAdapter Open(const std::string& path) const;
  /// Loads the adapter on all ranks of all replicas. New requests then find the adapter by this name. Running requests
  /// go on with an earlier adapter of this name. Calls `done` once, on any thread. `in_place`: the name may be in use
  /// already. Throws ApiError where the name or the memory does not allow the load.
  void Load(const std::string& name, const FoundAdapter& found, bool in_place, Done done);
  /// Removes the name, so that requests no longer find the adapter. The ranks drop the adapter when its last request
  /// has ended. Throws ApiError for an unknown name, and for an adapter that the settings list.
  void Unload(const std::string& name);

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the adapters in use
};

}  // namespace quire
