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

/// The LoRA adapters of one model: those that are listed for the start, and those that operators load while it is
/// served. All methods may be called on any thread.
class AdapterShelf {
 public:
  /// Hears how a load ended: "" or the reason why the adapter is not served.
  using Done = std::function<void(const std::string& problem)>;

  /// Throws SettingsError for a listed adapter beyond lora.max_rank, and for a directory of lora.dirs that is missing.
  AdapterShelf(const Topology& topology, const ModelFiles& files);
  ~AdapterShelf();

  /// The model's workers are ready. The replicas must live until End.
  void Begin(Replicas& replicas);
  void End();

  /// The adapter of this name; null: there is none.
  std::shared_ptr<const ServedAdapter> Find(const std::string& name) const;
  std::vector<std::string> Names() const;
  /// Adapters that were loaded while serving, and bytes of all that some rank may still have.
  std::vector<std::shared_ptr<const ServedAdapter>> Later() const;
  int64_t used_bytes() const;

  /// Opens and checks an adapter in one of the allowed directories. Reads all of it. Throws Error.
  FoundAdapter Open(const std::string& path) const;
  /// Brings the adapter to all ranks of all replicas. Then requests find it by this name; those that began with an
  /// earlier one of the name keep it. Calls `done` once, on any thread. Throws ApiError where names or memory do not
  /// allow it; `in_place`: the name may be in use.
  void Load(const std::string& name, const FoundAdapter& found, bool in_place, Done done);
  /// Requests no longer find the adapter. The ranks drop it when the last request with it has ended. Throws ApiError
  /// for a name that is not loaded, or that is listed.
  void Unload(const std::string& name);

 private:
  struct State;
  std::shared_ptr<State> state_;  // adapters in use refer to it, too
};

}  // namespace quire
