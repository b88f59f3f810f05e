#pragma once

#include <vector>

#include "comm/model/model_spec.h"
#include "worker/model/shard.h"

namespace quire {

/// Rows that go through a product and what follows on it together: what they make stays in the second-level cache until
/// it is gated, or summed over the ranks, and there are enough of them for a pass over the weights. As many as a
/// product keeps there of x.
inline constexpr int64_t kRowsTogether = 120;

/// What a forward pass keeps of T tokens between operations, in fp32. Rows of layers that differ are as wide as the
/// layer at hand needs, and there is room for the widest.
struct CpuActivations {
  CpuActivations(const ModelSpec& spec, const RankShard& shard, int64_t max_tokens);

  std::vector<float> residual;      // [T, hidden]
  std::vector<float> normed;        // [T, hidden]
  std::vector<float> qkv;           // [T, QkvWidth]
  std::vector<float> attended;      // [T, local heads * head_dim]
  std::vector<float> gate_up;       // [at most kRowsTogether, 2 * local mlp]; empty where the MLP has no gate
  std::vector<float> activated;     // [T, local mlp]
  std::vector<float> squares;       // [T, 2] of queries and keys: first this rank's, then all ranks'
  std::vector<float> layer_inputs;  // [T, layers, layer_input_size]; empty for none
  std::vector<float> gated_input;   // [T, layer_input_size], likewise
  std::vector<float> delta;         // [T, hidden]: this rank's part of what attention or MLP adds to the residual
};

}  // namespace quire
