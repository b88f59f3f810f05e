#pragma once

#include "comm/model/model_spec.h"
#include "kernels/cuda/paged_cache.h"
#include "worker/cuda/device/pieces.h"
#include "worker/cuda/weights/cuda_weights.h"

namespace quire {

/// Device buffers of layers with a mixture, for T rows that each choose k experts. Rows of experts are grouped by
/// expert (kernels/route_experts.h). All are null in models without mixtures.
struct CudaExpertActivations {
  CudaExpertActivations(const ModelSpec& spec, const RankShard& shard, NumberType dtype, int64_t max_tokens,
                        Pieces& pieces)
      : experts(shard.experts),
        whole_experts(shard.whole_experts),
        width(CudaWeights::ExpertWidth(shard)),
        shared_width(CudaWeights::SharedWidth(shard)),
        router_width(CudaWeights::RouterWidth(spec)) {
    if (spec.num_mixture_layers() == 0) return;
    const int64_t pairs = max_tokens * spec.mixture.experts_per_token;
    const auto rows = [&](int64_t count, int64_t columns) -> void* {
      return pieces.Take(count * columns * ByteSize(dtype));
    };
    logits = pieces.Take<float>(max_tokens * router_width);
    weights = pieces.Take<float>(pairs);
    chosen = pieces.Take<int32_t>(pairs);
    start = pieces.Take<int32_t>(experts.size() + 1);
    pair_of_row = pieces.Take<int32_t>(pairs);
    row_of_pair = pieces.Take<int32_t>(pairs);
    if (spec.gated_mlp) gate_up = rows(pairs, 2 * width);
    activated = rows(pairs, width);
    out = rows(pairs, spec.hidden_size);
    if (spec.mixture.shared_intermediate_size == 0) return;
    if (spec.gated_mlp) shared_gate_up = rows(max_tokens, 2 * shared_width);
    shared_activated = rows(max_tokens, shared_width);
    shared = rows(spec.mixture.normed_apart ? 2 * max_tokens : max_tokens, spec.hidden_size);
  }

  Range experts;                // this rank's experts
  bool whole_experts;           // true: no other rank has these experts
  int64_t width, shared_width;  // columns of an expert's MLP, of the shared expert's MLP
  int64_t router_width;
  float* logits = nullptr;           // [T, router_width]
  float* weights = nullptr;          // [T, k]
  int32_t* chosen = nullptr;         // [T, k]
  int32_t* start = nullptr;          // [local experts + 1] expert e has rows [start[e], start[e + 1])
  int32_t* pair_of_row = nullptr;    // [T * k] pair (token, choice) of each row
  int32_t* row_of_pair = nullptr;    // [T * k] row of each pair (token, choice); -1: left out
  void* gate_up = nullptr;           // [T * k, 2 * width]; null: experts have no gates
  void* activated = nullptr;         // [T * k, width]
  void* out = nullptr;               // [T * k, hidden]
  void* shared_gate_up = nullptr;    // [T, 2 * shared_width]; null: experts have no gates
  void* shared_activated = nullptr;  // [T, shared_width]
  /// The shared expert's outputs [T, hidden]; null: no shared expert. With Mixture::normed_apart [2 * T, hidden]: the
  /// shared expert's outputs, then the routed experts'.
  void* shared = nullptr;
};

}  // namespace quire
