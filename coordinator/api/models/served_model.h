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
#include "coordinator/api/models/model_lives.h"
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
  /// Opens the files and reads the tokenizer and the template. `topology` is the model's own (ModelTopology), `index`
  /// its place in the list. `log_name` begins the log's lines about it; empty: nothing does. Throws SettingsError.
  ServedModel(const Topology& topology, size_t index, std::string log_name);

  const std::string& name() const { return topology_.model.name; }
  size_t index() const { return index_; }
  /// The settings of this model, with "auto" replaced by what was chosen. The topology has no list of models.
  const Topology& topology() const { return topology_; }
  const ModelFiles& files() const { return files_; }
  const ModelSpec& spec() const { return files_.spec(); }
  const TextTools& text() const { return text_; }
  EventFeed& events() { return events_; }          // of this model's replicas
  GrammarTrials& grammars() { return grammars_; }  // for the thread of grammars only

  /// The names that clients may use: the model's own, its aliases, then its adapters.
  std::vector<std::string> Names() const;
  const AdapterShelf& adapters() const { return adapters_; }
  AdapterShelf& adapters() { return adapters_; }
  /// The sequences that all replicas may run, and the choices that may wait or run.
  int max_running() const { return topology_.scheduler.max_running * topology_.parallel.replicas; }
  int max_pending() const { return topology_.scheduler.max_waiting + max_running(); }

  /// Sets the model's part of the host's memory, of which `kv` bytes for KV blocks. Call it before the first start.
  void SetMemory(const ModelNeed& need, int64_t kv, const PlannedLimits& limits);
  /// Bytes of all ranks: weights; KV cache (0: the only model, whose ranks take what is free); both with swap space.
  int64_t weight_bytes() const { return need_.weights; }
  int64_t kv_bytes() const { return kv_bytes_; }
  int64_t bytes() const { return need_.With(kv_bytes_); }

  /// Starts the workers, and returns when they are ready or throws why not. `on_lost` is called once, on some thread,
  /// when all replicas are lost. Call it before the I/O thread uses this model.
  void Start(std::function<void(const std::string&)> on_lost);
  /// Begins to start the workers, as ModelWorkers does. After `started(null)` call FinishStart, otherwise DropStart.
  void BeginStart(std::function<void(std::exception_ptr)> started);
  void FinishStart(std::function<void(const std::string&)> on_lost);
  void DropStart();
  void CancelStart(bool cancel = true) { cancel_ = cancel; }  // later starts fail, too, until CancelStart(false)
  /// From now on Hold() returns null, and EndWhenFree may end the workers on another thread, which then calls `ended`.
  /// EndWhenFree returns false while the workers are held.
  void Retire();
  bool EndWhenFree(std::function<void()> ended);
  /// Ends, in this order: the engines' threads and their requests (waits for starts and ends on other threads); the
  /// workers; all that is left but the open model.
  void StopLoops();
  void StopWorkers(const std::string& reason);
  void End();

  /// Keeps the workers of a loaded model from being ended; null when the model is not loaded. A coroutine that uses
  /// replicas(), those of a loaded model, must hold them.
  std::shared_ptr<ModelWorkers> Hold() const { return phase_ == LifePhase::kLoaded ? workers_ : nullptr; }
  Replicas& replicas() { return workers_->replicas(); }
  const Replicas& replicas() const { return workers_->replicas(); }
  LifePhase phase() const { return phase_; }
  ModelState state() const;
  CallLimits LimitsOfCalls();  // the same however often the model is loaded

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
  PlannedLimits limits_;  // 0: known with the first start
  std::atomic<bool> cancel_{false};
  LifePhase phase_ = LifePhase::kUnloaded;
  std::shared_ptr<ModelWorkers> workers_;  // null: not started
  std::thread ender_;                      // ends the last retired workers
};

}  // namespace quire
