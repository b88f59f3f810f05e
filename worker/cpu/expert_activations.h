#pragma once

#include <cstdint>
#include <vector>

#include "comm/model/model_spec.h"
#include "worker/model/shard.h"

namespace quire {

/// What a layer with a mixture keeps for T tokens, each of which chooses k experts. Rows of experts are grouped by
/// expert (kernels/route_experts.h). Nothing of it is there in models without mixtures.
struct ExpertActivations {
  ExpertActivations(const ModelSpec& spec, const RankShard& shard, int64_t max_tokens);

  std::vector<float> logits;         // [T, experts], and a column more where the shared expert has a gate
  std::vector<int32_t> chosen;       // [T, k]
  std::vector<float> weights;        // [T, k]
  std::vector<int32_t> start;        // [experts of the rank + 1]
  std::vector<int32_t> pair_of_row;  // [T * k]
  std::vector<int32_t> row_of_pair;  // [T * k]
  std::vector<float> gate_up;        // [T * k, 2 * local expert mlp]; of gated experts
  std::vector<float> activated;      // [T * k, local expert mlp]
  std::vector<float> out;            // [T * k, hidden]
  std::vector<float> shared_gate_up, shared_activated;  // [T, 2 * local shared mlp], [T, local shared mlp]
  std::vector<float> shared;                            // [T, hidden]
  // With Mixture::normed_apart, what the shared expert gives, and behind that what the chosen ones do: of this rank, of
  // all of them. [2 * T, hidden]
  std::vector<float> terms, sums;
};

}  // namespace quire
