#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/model/model_files.h"
#include "comm/topology/topology.h"
#include "coordinator/api/models/adapter_shelf.h"
#include "coordinator/api/models/model_workers.h"
#include "coordinator/api/models/text_tools.h"
#include "coordinator/cluster/hosts/model_shares.h"
#include "coordinator/grammars/grammar_trials.h"

namespace quire {

/// The limits of a model's calls, once its replicas are sized: the smallest over all replicas, so that each replica can
/// keep them.
struct CallLimits {
  RequestLimits request;
  int64_t pool_tokens = 0;  // tokens that all KV blocks of a replica hold
};

/// Whether a model can serve requests. kLost: all its workers are lost for good.
enum class ModelState { kReady, kRestarting, kLost };
const char* NameOf(ModelState state);

/// One model that the server serves, with all that belongs to this model alone: its files, tokenizer, chat template,
/// parsers, sampling defaults, limits and worker groups. Used by the I/O thread, except where a comment says otherwise.
class ServedModel {
 public:
  /// Opens the files and reads the tokenizer and the template. `topology` is the model's own (ModelTopology).
  /// `index` is the model's place in the list. `log_name` begins the log's lines about this model; empty: nothing does.
  /// Throws SettingsError.
  ServedModel(const Topology& topology, size_t index, std::string log_name);

  const std::string& name() const { return topology_.model.name; }
  size_t index() const { return index_; }
  /// The settings of this model, with "auto" replaced by what was chosen. The topology has no list of models.
  const Topology& topology() const { return topology_; }
  const ModelFiles& files() const { return files_; }
  const ModelSpec& spec() const { return files_.spec(); }
  const TextTools& text() const { return text_; }
  /// The events of this model's replicas.
  EventFeed& events() { return events_; }
  /// For the thread of grammars only.
  GrammarTrials& grammars() { return grammars_; }

  /// The names that clients may use: the model's own name first, then its aliases, then its adapters.
  std::vector<std::string> Names() const;
  const AdapterShelf& adapters() const { return adapters_; }
  AdapterShelf& adapters() { return adapters_; }
  /// The sequences that all replicas may run, and the choices that may wait or run.
  int max_running() const { return topology_.scheduler.max_running * topology_.parallel.replicas; }
  int max_pending() const { return topology_.scheduler.max_waiting + max_running(); }

  /// Gives a model of a list its part of the host's memory: so many bytes of KV cache. Call it before Start.
  void SetMemory(const ModelNeed& need, int64_t kv);
  /// The bytes of weights and of KV cache of all ranks. 0 for the only model of a server: its ranks take what is free.
  int64_t weight_bytes() const { return weight_bytes_; }
  int64_t kv_bytes() const { return kv_bytes_; }

  /// Starts the workers and returns when they are ready; throws the reason when they are not. `on_lost` is called once,
  /// on some thread, when the last replica is lost for good. Call it before the I/O thread uses this model.
  void Start(const std::atomic<bool>& cancel, std::function<void(const std::string&)> on_lost);
  /// Ends the engines' threads and drops their requests.
  void StopLoops();
  /// Ends the workers.
  void StopWorkers(const std::string& reason);
  /// Ends the engines and the workers, if they were started. The model stays open.
  void End() {
    adapters_.End();
    workers_.reset();
  }

  /// The replicas of a model that was started.
  Replicas& replicas() { return workers_->replicas(); }
  const Replicas& replicas() const { return workers_->replicas(); }
  ModelState state() const;
  CallLimits LimitsOfCalls();

 private:
  Topology topology_;
  const size_t index_;
  const std::string log_name_;
  ModelFiles files_;
  TextTools text_;
  AdapterShelf adapters_;
  GrammarTrials grammars_;
  EventFeed events_;
  int64_t weight_bytes_ = 0, kv_bytes_ = 0;
  std::unique_ptr<ModelWorkers> workers_;  // null: not started
};

}  // namespace quire
