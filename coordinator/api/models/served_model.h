#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "coordinator/api/models/adapter_shelf.h"
#include "coordinator/api/models/life_phase.h"
#include "coordinator/api/models/model_state.h"
#include "coordinator/api/models/model_workers.h"
#include "coordinator/api/models/text_tools.h"
#include "coordinator/cluster/hosts/model_shares.h"
#include "coordinator/grammars/grammar_trials.h"

namespace quire {

/// One model that the server serves, with all that belongs to this model alone: its files, tokenizer, chat template,
/// parsers, sampling defaults, limits and worker groups. Used by the I/O thread, except where a comment says otherwise.
class ServedModel {
 public:
  /// Opens the files and reads tokenizer and template. `topology`: this model's own (ModelTopology). `index`: place in
  /// the list of models. `log_name`: beginning of log lines. Throws SettingsError for missing or unsupported files.
  ServedModel(const Topology& topology, size_t index, std::string log_name);

  const std::string& name() const { return topology_.model.name; }
  size_t index() const { return index_; }
  /// Returns the settings of this model, with "auto" replaced by the chosen values. The topology has no list of models.
  const Topology& topology() const { return topology_; }
  const ModelFiles& files() const { return files_; }
  const ModelSpec& spec() const { return files_.spec(); }
  const TextTools& text() const { return text_; }
  EventFeed& events() { return events_; }          // events of this model's replicas
  GrammarTrials& grammars() { return grammars_; }  // trials belong to the grammar pool's thread

  /// Returns the names that clients may use: the model's own, its aliases, then its adapters.
  std::vector<std::string> Names() const;
  const AdapterShelf& adapters() const { return adapters_; }
  AdapterShelf& adapters() { return adapters_; }
  /// Return the most sequences that run on all replicas together, and the most choices that may wait or run.
  int max_running() const { return topology_.scheduler.max_running * topology_.parallel.replicas; }
  int max_pending() const { return topology_.scheduler.max_waiting + max_running(); }

  /// Sets the model's part of the host's memory; `kv` bytes of it are for KV blocks. Call it before the first start.
  void SetMemory(const ModelNeed& need, int64_t kv, const PlannedLimits& limits);
  /// Return bytes, summed over all ranks. kv_bytes() is 0 if the KV cache takes all free memory. bytes(): the sum.
  const ModelNeed& need() const { return need_; }
  int64_t kv_bytes() const { return kv_bytes_; }
  int64_t bytes() const { return need_.With(kv_bytes_); }
  /// Starts the workers. Returns when they are ready, or throws the reason why they are not. `on_lost` is called once,
  /// on some thread, when all replicas are lost. Call it before the I/O thread uses this model.
  void Start(std::function<void(const std::string&)> on_lost);
  /// Begins to start the workers, as ModelWorkers does. After `started(null)` call FinishStart, otherwise DropStart.
  void BeginStart(std::function<void(std::exception_ptr)> started);
  void FinishStart(std::function<void(const std::string&)> on_lost);
  void DropStart();
  void CancelStart(bool cancel = true) { cancel_ = cancel; }  // until CancelStart(false) all starts fail
  void Retire();  // begins to unload the model: from now on Hold() returns null
  /// Call it after Retire. Returns false while a caller holds the workers; else a thread ends them and calls `ended`.
  bool EndWhenFree(std::function<void()> ended);
  /// Puts a loaded model without requests to sleep (replica_rest.h). From now on Hold() returns null. Another thread
  /// calls `asleep` with the bytes that the workers still take. Then call NotePhase(kAsleep), and kLoaded after waking.
  void BeginSleep(std::function<void(int64_t bytes)> asleep);
  void NotePhase(LifePhase phase) { phase_ = phase; }
  /// Call these in this order when the server ends. They end engines' threads and requests, workers, and all else.
  void StopLoops();
  void StopWorkers(const std::string& reason);
  void End();
  /// While the returned object lives, the workers of the loaded model are not ended. Returns null when the model is not
  /// loaded. A coroutine must hold the workers while it uses replicas().
  std::shared_ptr<ModelWorkers> Hold() const { return phase_ == LifePhase::kLoaded ? workers_ : nullptr; }
  Replicas& replicas() { return workers_->replicas(); }
  const Replicas& replicas() const { return workers_->replicas(); }
  LifePhase phase() const { return phase_; }
  ModelState state() const;
  CallLimits LimitsOfCalls();  // limits of calls, equal after each start of the model

 private:
  Topology topology_;
  const size_t index_;
  const std::string log_name_;
  ModelFiles files_;
  TextTools text_;
  AdapterShelf adapters_;
  GrammarTrials grammars_;
  EventFeed events_;
  ModelNeed need_;
  int64_t kv_bytes_ = 0;
  PlannedLimits limits_;  // 0: set by the first start
  std::atomic<bool> cancel_{false};
  LifePhase phase_ = LifePhase::kUnloaded;
  std::shared_ptr<ModelWorkers> workers_;  // null: not started
  std::thread ender_;                      // ends the last retired workers, or puts them to sleep
};

}  // namespace quire
