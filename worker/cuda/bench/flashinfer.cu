// Implements flashinfer.h with FlashInfer's headers, version 0.7.2 (tests/gpu/fetch-flashinfer).
#include <cmath>
#include <flashinfer/attention/default_prefill_params.cuh>
#include <flashinfer/attention/mask.cuh>
#include <flashinfer/attention/prefill.cuh>
#include <flashinfer/attention/scheduler.cuh>
#include <flashinfer/attention/variants.cuh>
#include <stdexcept>
#include <string>

#include "worker/cuda/bench/flashinfer.h"

namespace quire::bench {

namespace {

namespace fi = flashinfer;

using Number = __nv_bfloat16;
using Params = fi::BatchPrefillPagedParams<Number, Number, Number, int32_t>;
using Variant = fi::DefaultAttention<false, false, false, false>;  // no custom mask, window, cap or slopes

constexpr int64_t kFloatBytes = int64_t{256} << 20, kIntBytes = int64_t{16} << 20;

void Check(cudaError_t status, const char* doing) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string("FlashInfer: ") + doing + ": " + cudaGetErrorString(status));
}

/// The kernels below convert to [page, head, token, dim]: keys from [page, head, dim / 8, token, 8], values from [page,
/// head, dim, token].
__global__ void CopyKeys(const Number* from, Number* to, int64_t count, int tokens, int dims) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i >= count) return;
  const int64_t of_head = i / (tokens * dims) * (tokens * dims);
  const int token = static_cast<int>(i % (tokens * dims)) / dims, dim = static_cast<int>(i % dims);
  to[i] = from[of_head + dim / 8 * (tokens * 8) + token * 8 + dim % 8];
}
__global__ void CopyValues(const Number* from, Number* to, int64_t count, int tokens, int dims) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i >= count) return;
  const int64_t of_head = i / (tokens * dims) * (tokens * dims);
  const int token = static_cast<int>(i % (tokens * dims)) / dims, dim = static_cast<int>(i % dims);
  to[i] = from[of_head + dim * tokens + token];
}

class PagedAttention final : public FlashInferAttention {
 public:
  PagedAttention(const PagedBatch& batch, const std::vector<int32_t>& query_start, Device& device)
      : batch_(batch),
        device_(device),
        stream_(static_cast<cudaStream_t>(device.stream().handle)),
        rows_(query_start.back()),
        floats_(device.Allocate(kFloatBytes, "FlashInfer's parts")),
        ints_(device.Allocate(kIntBytes, "FlashInfer's plan")),
        host_ints_(device.AllocateHost(kIntBytes, "FlashInfer's plan")) {
    const PagedShape& shape = batch.shape();
    std::vector<int32_t> page_start{0}, pages, last_page;
    for (size_t s = 0; s < shape.contexts.size(); ++s) {
      const std::vector<int32_t> of_sequence = batch.BlocksOfSequence(s);
      pages.insert(pages.end(), of_sequence.begin(), of_sequence.end());
      page_start.push_back(static_cast<int32_t>(pages.size()));
      last_page.push_back((shape.contexts[s] - 1) % shape.block_size + 1);
    }
    pages_ = OnDevice(device, pages);
    page_start_ = OnDevice(device, page_start);
    last_page_ = OnDevice(device, last_page);
    query_start_ = OnDevice(device, query_start);
    Copy();
    Plan(query_start, page_start);
  }

  void Queue(int64_t set, const void* queries, void* out) override {
    const bool decodes = rows_ == static_cast<int64_t>(batch_.shape().contexts.size());
    if (batch_.shape().head_size == 64) return Run<64, fi::MaskMode::kCausal>(set, queries, out);
    decodes ? Run<128, fi::MaskMode::kNone>(set, queries, out) : Run<128, fi::MaskMode::kCausal>(set, queries, out);
  }

 private:
  int64_t SetElements() const {
    const PagedShape& shape = batch_.shape();
    return batch_.num_blocks() * shape.block_size * shape.kv_heads * shape.head_size;
  }

  void Copy() {
    const PagedShape& shape = batch_.shape();
    const int64_t count = SetElements(), blocks = (count + 255) / 256;
    keys_ = device_.Allocate(batch_.sets() * count * 2, "FlashInfer's keys");
    values_ = device_.Allocate(batch_.sets() * count * 2, "FlashInfer's values");
    for (int64_t set = 0; set < batch_.sets(); ++set) {
      const kernels::PagedCache cache = batch_.Cache(set);
      const auto launch = [&](auto kernel, const void* from, const DeviceMemory& to) {
        kernel<<<static_cast<unsigned>(blocks), 256, 0, stream_>>>(
            static_cast<const Number*>(from), to.as<Number>() + set * count, count, shape.block_size, shape.head_size);
      };
      launch(CopyKeys, cache.keys, keys_);
      launch(CopyValues, cache.values, values_);
    }
    Check(cudaGetLastError(), "copying keys and values");
  }

  void Plan(std::vector<int32_t> query_start, std::vector<int32_t> page_start) {
    const PagedShape& shape = batch_.shape();
    Check(fi::PrefillPlan<int32_t>(floats_.as<void>(), kFloatBytes, ints_.as<void>(), host_ints_.as<void>(), kIntBytes,
                                   plan_, query_start.data(), page_start.data(), static_cast<uint32_t>(rows_),
                                   static_cast<uint32_t>(shape.contexts.size()),
                                   static_cast<uint32_t>(batch_.num_heads()), static_cast<uint32_t>(shape.kv_heads),
                                   static_cast<uint32_t>(shape.head_size), static_cast<uint32_t>(shape.head_size),
                                   static_cast<uint32_t>(shape.block_size), /*enable_cuda_graph=*/false,
                                   /*sizeof_dtype_o=*/2, /*window_left=*/-1, /*fixed_split_size=*/-1,
                                   /*disable_split_kv=*/false, /*num_colocated_ctas=*/0, /*uniform_q_len=*/0, stream_),
          "planning");
    device_.Synchronize();  // the host part of the plan may still be copied
  }

  template <class T>
  T* InPlan(int64_t offset) const {
    return reinterpret_cast<T*>(ints_.as() + offset);
  }

  template <uint32_t kHeadSize, fi::MaskMode kMask>
  void Run(int64_t set, const void* queries, void* out) {
    const PagedShape& shape = batch_.shape();
    const int64_t at = set * SetElements();
    const fi::paged_kv_t<Number, int32_t> cache(
        static_cast<uint32_t>(shape.kv_heads), static_cast<uint32_t>(shape.block_size), kHeadSize,
        static_cast<uint32_t>(shape.contexts.size()), fi::QKVLayout::kHND, keys_.as<Number>() + at,
        values_.as<Number>() + at, pages_.as<int32_t>(), page_start_.as<int32_t>(), last_page_.as<int32_t>());
    Params params(static_cast<Number*>(const_cast<void*>(queries)), cache, nullptr, query_start_.as<int32_t>(), nullptr,
                  nullptr, static_cast<Number*>(out), nullptr, nullptr, static_cast<uint32_t>(batch_.num_heads()),
                  static_cast<int32_t>(batch_.row()), shape.head_size, -1, 0.0f,
                  1.0f / std::sqrt(static_cast<float>(shape.head_size)), 1.0f, 1e4f);
    params.request_indices = InPlan<int32_t>(plan_.request_indices_offset);
    params.qo_tile_indices = InPlan<int32_t>(plan_.qo_tile_indices_offset);
    params.kv_tile_indices = InPlan<int32_t>(plan_.kv_tile_indices_offset);
    params.o_indptr = InPlan<int32_t>(plan_.o_indptr_offset);
    params.kv_chunk_size_ptr = InPlan<int32_t>(plan_.kv_chunk_size_ptr_offset);
    params.padded_batch_size = static_cast<uint32_t>(plan_.padded_batch_size);
    params.max_total_num_rows = static_cast<uint32_t>(plan_.total_num_rows);
    Number* parts = nullptr;
    float* sums = nullptr;
    if (plan_.split_kv) {
      params.merge_indptr = InPlan<int32_t>(plan_.merge_indptr_offset);
      parts = reinterpret_cast<Number*>(floats_.as() + plan_.v_offset);
      sums = reinterpret_cast<float*>(floats_.as() + plan_.s_offset);
    }
    cudaError_t status = cudaSuccess;
    DISPATCH_CTA_TILE_Q(plan_.cta_tile_q, CTA_TILE_Q, {
      status = (fi::BatchPrefillWithPagedKVCacheDispatched<true, CTA_TILE_Q, kHeadSize, kHeadSize,
                                                           fi::PosEncodingMode::kNone, false, kMask, Variant, Params>(
          params, parts, sums, /*enable_pdl=*/false, stream_));
    });
    Check(status, "attention");
  }

  const PagedBatch& batch_;
  Device& device_;
  cudaStream_t stream_;
  int64_t rows_;
  DeviceMemory floats_, ints_, host_ints_, keys_, values_, pages_, page_start_, last_page_, query_start_;
  fi::PrefillPlanInfo plan_;
};

}  // namespace

std::unique_ptr<FlashInferAttention> MakeFlashInfer(const PagedBatch& batch, const std::vector<int32_t>& query_start,
                                                    Device& device) {
  const PagedShape& shape = batch.shape();
  if (shape.cache != NumberType::kBF16 || (shape.head_size != 64 && shape.head_size != 128)) return nullptr;
  return std::make_unique<PagedAttention>(batch, query_start, device);
}

}  // namespace quire::bench
