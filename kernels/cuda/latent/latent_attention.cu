#include <bit>

#include "kernels/cuda/decode/decode_attention_combine.cuh"
#include "kernels/cuda/latent/latent_attention.cuh"
#include "kernels/cuda/latent/latent_attention_scalar.cuh"
#include "kernels/cuda/latent/latent_write.cuh"
#include "kernels/cuda/launch.cuh"

// Checks the parameters of latent attention, and launches its kernels.
namespace quire::kernels {

namespace {

void CheckLatentCache(NumberType dtype, const PagedCache& cache, int32_t rank) {
  const int64_t x = 16 / ByteSize(cache.type);
  QUIRE_KERNEL_CHECK(Aligned(cache.keys) && cache.key_block_stride % x == 0 && cache.head_size % x == 0);
  QUIRE_KERNEL_CHECK(cache.block_size >= 8 && cache.block_size <= 64);
  QUIRE_KERNEL_CHECK(std::has_single_bit(static_cast<uint32_t>(cache.block_size)));
  QUIRE_KERNEL_CHECK(cache.num_kv_heads == 1 && cache.k_scale > 0 && cache.k_scale == cache.v_scale);
  QUIRE_KERNEL_CHECK(rank > 0 && rank < cache.head_size);
  CheckCacheType(dtype, cache);
}

/// Calls run.operator()<T, C>() for the type of queries and results and the type of the cache.
template <class Run>
void WithTypes(NumberType dtype, NumberType cache, const Run& run) {
  WithType(dtype, [&]<class T>(T) {
    if (cache != NumberType::kFp8E4M3) {
      run.template operator()<T, T>();
    } else {
      run.template operator()<T, simt::Fp8E4M3>();
    }
  });
}

template <class T, class C, int kSlabs, int kSlices>
void LaunchLatentPrefill(const CudaStream& stream, const PrefillLaunch& launch) {
  using Kernel = LatentPrefillKernel<T, C, kSlabs, kSlices>;
  static_assert(Kernel::SharedSize() == LatentSharedBytes(!std::is_same_v<T, C>, Kernel::kRows));
  simt::Launch<Kernel>({launch.op.num_tiles}, Kernel::kThreads, Kernel::SharedSize(), stream, launch);
  if (launch.op.num_merges == 0) return;
  using Combine = CombinePrefillKernel<T, kLatentRank, Kernel::kRows>;
  simt::Launch<Combine>({int64_t{launch.op.num_merges} * Combine::kBlocks}, Combine::kThreads, 0, stream, launch);
}

}  // namespace

void LatentPrefill(const CudaStream& stream, const PrefillAttentionParams& p, int32_t rank, int32_t tile_rows) {
  CheckLatentCache(p.dtype, p.cache, rank);
  QUIRE_KERNEL_CHECK(p.cache.head_size <= kMostLatentHeadSize && rank <= kMostLatentRank);
  QUIRE_KERNEL_CHECK(p.scale > 0 && p.window == 0 && p.soft_cap == 0 && !p.in_groups);
  QUIRE_KERNEL_CHECK(p.alibi_slopes == nullptr && p.sinks == nullptr);
  QUIRE_KERNEL_CHECK(p.num_merges == 0 || (p.merges != nullptr && p.workspace != nullptr && Aligned(p.workspace)));
  const bool has_tiles = HasLatentTiles(p.dtype, p.cache.head_size, rank);
  QUIRE_KERNEL_CHECK(has_tiles ? tile_rows == 64 || tile_rows == kDecodeRows : tile_rows == 32 && p.num_merges == 0);
  QUIRE_KERNEL_CHECK(!has_tiles || (Aligned(p.queries) && Aligned(p.out)));
  QUIRE_KERNEL_CHECK(!has_tiles || (p.query_stride % 8 == 0 && p.out_stride % 8 == 0));
  if (p.num_tiles == 0) return;
  const PrefillLaunch launch{p, std::countr_zero(static_cast<uint32_t>(p.cache.block_size)), INT32_MAX,
                             p.scale * p.cache.k_scale};
  WithTypes(p.dtype, p.cache.type, [&]<class T, class C>() {
    if constexpr (!std::is_same_v<T, float>) {
      if (has_tiles && tile_rows == 64) return LaunchLatentPrefill<T, C, 4, 2>(stream, launch);
      if (has_tiles) return LaunchLatentPrefill<T, C, 1, 4>(stream, launch);
    }
    using Kernel = LatentScalarKernel<T, C>;
    simt::Launch<Kernel>({p.num_tiles}, Kernel::kThreads, Kernel::SharedSize(), stream, {launch, rank});
  });
}

void LatentDecode(const CudaStream& stream, const DecodeAttentionParams& p, int32_t rank) {
  CheckLatentCache(p.dtype, p.cache, rank);
  QUIRE_KERNEL_CHECK(HasLatentTiles(p.dtype, p.cache.head_size, rank));
  QUIRE_KERNEL_CHECK(p.scale > 0 && p.soft_cap == 0 && p.alibi_slopes == nullptr && p.sinks == nullptr);
  QUIRE_KERNEL_CHECK(Aligned(p.queries) && p.query_stride % 8 == 0 && Aligned(p.out) && p.out_stride % 8 == 0);
  QUIRE_KERNEL_CHECK(Aligned(p.work) && Aligned(p.workspace) && (p.workspace != nullptr || !p.combine));
  QUIRE_KERNEL_CHECK(p.work_size.num_ctas >= 1);
  DecodeAttentionLaunch launch{p, p.work_size.FirstItemsAt(), p.work_size.MergesAt(), p.work_size.ItemsAt()};
  const int64_t rows = p.work_size.MaxSlots() * kDecodeRows;
  if (p.workspace != nullptr) {
    launch.partial = p.workspace;
    launch.max_score = launch.partial + rows * kLatentRank;
    launch.exp_sum = launch.max_score + rows;
  }
  WithTypes(p.dtype, p.cache.type, [&]<class T, class C>() {
    if constexpr (!std::is_same_v<T, float>) {
      using Kernel = LatentDecodeKernel<T, C>;
      simt::Launch<Kernel>({p.work_size.num_ctas}, Kernel::kThreads, Kernel::SharedSize(), stream, launch);
      if (!p.combine) return;
      using Combine = CombineDecodeKernel<T, kLatentRank>;
      simt::Launch<Combine>({p.work_size.num_ctas}, Combine::kThreads, Combine::SharedSize(p.work_size.num_ctas),
                            stream, launch);
    }
  });
}

void LatentWrite(const CudaStream& stream, const LatentWriteParams& p) {
  CheckLatentCache(p.dtype, p.cache, p.rank);
  QUIRE_KERNEL_CHECK(p.cache.head_size == p.rotated_dim + p.rank && p.rotated_dim % 2 == 0);
  QUIRE_KERNEL_CHECK(p.query_dim >= p.rotated_dim && p.num_heads >= 0);
  if (p.num_tokens == 0) return;
  WithTypes(p.dtype, p.cache.type, [&]<class T, class C>() {
    using Kernel = LatentWriteKernel<T, C>;
    simt::Launch<Kernel>({p.num_tokens}, Kernel::kThreads, Kernel::kSharedSize, stream, p);
  });
}

}  // namespace quire::kernels
