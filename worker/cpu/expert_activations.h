#pragma once

#include <cstdint>
#include <vector>

#include "comm/model/model_spec.h"
#include "worker/model/shard.h"

namespace quire {

/// The buffers of layers with a mixture of experts, for T tokens that each choose k experts. Rows are grouped by expert
/// (kernels/route_experts.h). All buffers are empty in models without mixtures.
struct ExpertActivations {
  ExpertActivations(const ModelSpec& spec, const RankShard& shard, int64_t max_tokens);

  /// Returns the bytes of the buffers.
  static int64_t Bytes(const ModelSpec& spec, const RankShard& shard, int64_t max_tokens);

  std::vector<float> logits;                            // [T, experts], plus one column for the shared expert's gate
  std::vector<int32_t> chosen;                          // [T, k]
  std::vector<float> weights;                           // [T, k] factors of the experts' outputs
  std::vector<float> scores;                            // [T, k] factors of their inputs: Mixture::weighs_inputs
  std::vector<int32_t> start;                           // [local experts + 1]
  std::vector<int32_t> pair_of_row;                     // [T * k] pair (token, choice) of each row
  std::vector<int32_t> row_of_pair;                     // [T * k] row of each pair (token, choice); -1: left out
  std::vector<float> gate_up;                           // [T * k, 2 * local expert mlp]; gated experts only
  std::vector<float> activated;                         // [T * k, local expert mlp]
  std::vector<float> out;                               // [T * k, hidden]
  std::vector<float> shared_gate_up, shared_activated;  // [T, 2 * local shared mlp], [T, local shared mlp]
  std::vector<float> shared;                            // [T, hidden]
  // For models with Mixture::normed_apart: [2 * T, hidden] each; first the shared expert's outputs, then the routed
  // experts'. `terms` has this rank's part, `sums` the sum over the ranks.
  std::vector<float> terms, sums;

 private:
  ExpertActivations() = default;
  /// Calls make(buffer, count) for each buffer, with its number of elements.
  template <class Make>
  void ForEach(const ModelSpec& spec, const RankShard& shard, int64_t max_tokens, const Make& make);
};

}  // namespace quire
