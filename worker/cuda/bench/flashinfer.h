#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/cuda/bench/paged_batch.h"

namespace quire::bench {

/// Attention by FlashInfer over the keys and values of a PagedBatch, for comparison. It uses the FA2 kernels, which
/// FlashInfer chooses for decodes on all devices and for prompts on devices before Hopper. The batch is copied into
/// FlashInfer's layout, [page, kv head, token, dimension]. Exists only in builds with FlashInfer's headers
/// (QUIRE_FLASHINFER).
class FlashInferAttention {
 public:
  virtual ~FlashInferAttention() = default;

  /// Queues out = attention(queries) over set number `set` of the batch's keys and values. Both arrays are [rows,
  /// heads, head size].
  virtual void Queue(int64_t set, const void* queries, void* out) = 0;
};

/// Returns FlashInfer's attention for the batch; null if this build lacks FlashInfer or does not support these types
/// and sizes. The queries of sequence s are the rows query_start[s] to query_start[s + 1] - 1. These queries belong to
/// the last tokens of the sequence's context.
std::unique_ptr<FlashInferAttention> MakeFlashInfer(const PagedBatch& batch, const std::vector<int32_t>& query_start,
                                                    Device& device);

}  // namespace quire::bench
