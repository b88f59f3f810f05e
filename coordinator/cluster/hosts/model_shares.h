#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/model/model_files.h"
#include "comm/model/model_spec.h"
#include "comm/topology/topology.h"
#include "coordinator/cluster/hosts/memory_plan.h"

namespace quire {

/// The memory that a model's workers need on a host: bytes of all ranks of all replicas together.
struct ModelNeed {
  std::string name;
  int64_t weights = 0, swap = 0;
  int64_t working = 0;                // WorkingMemory::total of all workers
  int64_t kv_least = 0, kv_most = 0;  // least and most useful bytes of KV memory; equal if the settings give them
  int64_t kv_whole = 0;               // bytes of KV memory for one sequence of the model's full length
  int64_t block_bytes = 1;            // bytes of one KV block, summed over the ranks
  bool fixed = false;                 // the settings give the size
  bool on_request = false;            // loaded at the first request; may take turns with other models

  /// Returns all bytes with `kv` bytes of KV memory.
  int64_t With(int64_t kv) const { return weights + working + swap + kv; }
};

/// Returns the memory that a planned model needs. `topology`: the model's own. Throws Error when the model alone does
/// not fit.
ModelNeed NeedOf(const MemoryPlan& plan, const Topology& topology, const ModelSpec& spec);

/// Returns the KV memory of each model, in bytes of all its ranks, so that all models together fit into `room` bytes.
/// Every model gets its least KV memory. The remaining memory is divided evenly, and memory that a model cannot use
/// goes to the other models. Throws Error that names the sizes when the models do not fit even with the least KV
/// memory.
std::vector<int64_t> ShareKv(int64_t room, const std::vector<ModelNeed>& needs);

/// Does what ShareKv does, for lists in which some models are loaded on request. If the models do not all fit with KV
/// memory for one sequence of full length each, they take turns in memory. Then a model may take half of `room`,
/// weights included, or more if KV memory for one such sequence needs it. The models that are not loaded on request
/// share `room` among themselves, too. Throws Error when the models that are not loaded on request do not fit together,
/// or when a model alone does not fit. `at_once` becomes true when all models fit together.
std::vector<int64_t> ShareKvInTurns(int64_t room, const std::vector<ModelNeed>& needs, bool& at_once);

/// Returns the bytes for the workers of all models of a list: the setting, or else a share of the `free_bytes` that are
/// free on this host.
int64_t RoomOfModels(const Topology& topology, int64_t free_bytes);

/// Converts a model's share of KV memory (`kv`: bytes of all its ranks) into a number of blocks and writes it into
/// `cache`, unless the settings give the size.
void SetKvShare(int64_t kv, const ModelNeed& need, Topology::Cache& cache);

/// The limits that follow from a model's settings and its share of KV memory, as a start would compute them.
struct PlannedLimits {
  int model_len = 0;      // most tokens of a sequence
  int usable_blocks = 0;  // KV blocks of each replica
};

/// The memory of a list of models.
struct ListPlan {
  int64_t room = 0;              // bytes for the workers of all models together
  std::vector<ModelNeed> needs;  // one for each model
  std::vector<int64_t> kv;       // KV memory of each model, in bytes
  std::vector<Topology> models;  // one for each model (ModelTopology), with its share of KV memory
  std::vector<PlannedLimits> limits;  // one for each model
  bool at_once = true;  // all models fit at the same time; false: they take turns in memory
  std::string warning;  // warning about `room` (ModelsMemoryWarning, host_fit.h); empty: none
};

/// Plans every model of a list. `files` has the files of each model. Throws Error, also when the models do not fit.
ListPlan PlanModels(const Topology& topology, const std::vector<const ModelFiles*>& files);

}  // namespace quire
