#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/cuda/bench/paged_batch.h"

namespace quire::bench {

/// Attention by FlashInfer over the same numbers, for comparison. Uses its FA2 kernels, which FlashInfer chooses for
/// decodes on all devices and for prompts before Hopper. A batch is copied into FlashInfer's layout, [page, kv head,
/// token, dimension]. Exists only in builds with its headers (QUIRE_FLASHINFER).
class FlashInferAttention {
 public:
  virtual ~FlashInferAttention() = default;

  /// Queues out = attention(queries) by the plan of the constructor; both are [rows, heads, head size].
  virtual void Queue(int64_t set, const void* queries, void* out) = 0;
};

/// Returns FlashInfer's attention for the batch; null if this build lacks FlashInfer or does not support these types
/// and sizes. The queries of sequence s are rows query_start[s] to query_start[s + 1] - 1, the last tokens of its
/// context.
std::unique_ptr<FlashInferAttention> MakeFlashInfer(const PagedBatch& batch, const std::vector<int32_t>& query_start,
                                                    Device& device);

}  // namespace quire::bench
