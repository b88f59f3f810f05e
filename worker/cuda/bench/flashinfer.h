#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/cuda/bench/paged_batch.h"

namespace quire::bench {

/// The attention of a library over the same numbers: FlashInfer's FA2 kernels, which it takes for decodes on all
/// devices and for prompts on those before Hopper (on Hopper it has others for prompts). A batch is copied into its
/// form, [page, kv head, token, dimension]. Only in builds that were given its headers (QUIRE_FLASHINFER).
class FlashInferAttention {
 public:
  virtual ~FlashInferAttention() = default;

  /// Queues out = attention of the queries, [rows, heads, head size] both, as it was planned.
  virtual void Queue(int64_t set, const void* queries, void* out) = 0;
};

/// Null where this build has none, or none for these types and sizes. The queries of sequence s are rows query_start[s]
/// to query_start[s + 1] - 1, the last of its context.
std::unique_ptr<FlashInferAttention> MakeFlashInfer(const PagedBatch& batch, const std::vector<int32_t>& query_start,
                                                    Device& device);

}  // namespace quire::bench
