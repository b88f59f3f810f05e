#pragma once

#include <vector>

#include "comm/model/model_spec.h"
#include "worker/model/shard.h"

namespace quire {

/// The number of rows that go together through a product and the operation after it. It is small enough that the
/// product's result stays in the second-level cache until the result is gated or summed over the ranks, and large
/// enough that weights are read once for many rows. The same number of rows of x stays in that cache during a product.
inline constexpr int64_t kRowsTogether = 120;

/// The fp32 activations of T tokens that pass from one operation of a forward pass to the next. Each buffer has room
/// for the widest layer; narrower layers use narrower rows.
struct CpuActivations {
  CpuActivations(const ModelSpec& spec, const RankShard& shard, int64_t max_tokens);

  /// Returns the bytes of the buffers.
  static int64_t Bytes(const ModelSpec& spec, const RankShard& shard, int64_t max_tokens);

  std::vector<float> residual;      // [T, hidden]
  std::vector<float> normed;        // [T, hidden]
  std::vector<float> qkv;           // [T, QkvWidth]
  std::vector<float> attended;      // [T, local heads * head_dim]
  std::vector<float> gate_up;       // [at most kRowsTogether, 2 * local mlp]; empty for MLPs without a gate
  std::vector<float> activated;     // [T, local mlp]
  std::vector<float> squares;       // [2, T, 2] sums of squares of queries and keys: this rank's, then all ranks'
  std::vector<float> layer_inputs;  // [T, layers, layer_input_size]; empty: no layer inputs
  std::vector<float> gated_input;   // [T, layer_input_size]; empty: no layer inputs
  std::vector<float> delta;         // [T, hidden]: this rank's part of what attention or the MLP adds to the residual

 private:
  CpuActivations() = default;
  /// Calls make(buffer, count) for each buffer, with its number of elements.
  template <class Make>
  void ForEach(const ModelSpec& spec, const RankShard& shard, int64_t max_tokens, const Make& make);
};

}  // namespace quire
