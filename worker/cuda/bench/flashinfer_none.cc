// Implements flashinfer.h for builds without FlashInfer's headers.
#include "worker/cuda/bench/flashinfer.h"

namespace quire::bench {

std::unique_ptr<FlashInferAttention> MakeFlashInfer(const PagedBatch&, const std::vector<int32_t>&, Device&) {
  return nullptr;
}

}  // namespace quire::bench
