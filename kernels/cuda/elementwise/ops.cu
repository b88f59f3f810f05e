#include "kernels/check.h"
#include "kernels/cuda/elementwise/block_copy.cuh"
#include "kernels/cuda/elementwise/logits_and_squares.cuh"
#include "kernels/cuda/elementwise/pack_runs.cuh"
#include "kernels/cuda/elementwise/rope_kv_write.cuh"
#include "kernels/cuda/elementwise/row_ops.cuh"
#include "kernels/cuda/launch.cuh"

// Checks the parameters of all elementwise operations, and launches their kernels.
namespace quire::kernels {

namespace {

/// Returns the number of thread blocks that cover a row of n elements, one vector per thread.
template <class Kernel>
int64_t Pieces(int64_t n) {
  return (n + Kernel::kThreads * Kernel::kVec - 1) / (Kernel::kThreads * Kernel::kVec);
}

}  // namespace

void RopeKvWrite(const CudaStream& stream, const RopeKvWriteParams& p) {
  QUIRE_KERNEL_CHECK(p.rotary_dim >= 0 && p.rotary_dim % 2 == 0 && p.rotary_dim <= p.cache.head_size);
  QUIRE_KERNEL_CHECK(p.cache.head_size % (16 / ByteSize(p.cache.type)) == 0);
  CheckCacheType(p.dtype, p.cache);
  QUIRE_KERNEL_CHECK(p.cache.num_kv_heads == 0 || (p.query_norm == nullptr) == (p.key_norm == nullptr));
  QUIRE_KERNEL_CHECK(p.value_norm == nullptr || (p.query_norm != nullptr && p.squares == nullptr));
  QUIRE_KERNEL_CHECK(p.squares == nullptr || (p.query_norm != nullptr && p.bias == nullptr));
  if (p.num_tokens == 0) return;
  WithType(p.dtype, [&](auto t) {
    using T = decltype(t);
    if (p.cache.type != NumberType::kFp8E4M3) {
      using Kernel = RopeKvWriteKernel<T, T>;
      simt::Launch<Kernel>({p.num_tokens}, Kernel::kThreads, 0, stream, p);
    } else {
      using Kernel = RopeKvWriteKernel<T, simt::Fp8E4M3>;
      simt::Launch<Kernel>({p.num_tokens}, Kernel::kThreads, 0, stream, p);
    }
  });
}

void SumSquares(const CudaStream& stream, const SumSquaresParams& p) {
  if (p.num_tokens == 0) return;
  WithType(p.dtype, [&](auto t) {
    using Kernel = SumSquaresKernel<decltype(t)>;
    simt::Launch<Kernel>({p.num_tokens}, Kernel::kThreads, Kernel::kSharedSize, stream, p);
  });
}

void CapLogits(const CudaStream& stream, const CapLogitsParams& p) {
  QUIRE_KERNEL_CHECK(p.row_stride >= p.columns);
  if (p.num_rows == 0 || p.columns == 0) return;
  using Kernel = CapLogitsKernel;
  simt::Launch<Kernel>({p.num_rows, Pieces<Kernel>(p.columns)}, Kernel::kThreads, 0, stream, p);
}

void BlockCopy(const CudaStream& stream, const BlockCopyParams& p) {
  QUIRE_KERNEL_CHECK(Aligned(p.from) && Aligned(p.to) && p.block_bytes % 16 == 0);
  if (p.num_pairs == 0 || p.block_bytes == 0) return;
  const int64_t pieces = (p.block_bytes + BlockCopyKernel::kPiece - 1) / BlockCopyKernel::kPiece;
  simt::Launch<BlockCopyKernel>({p.num_pairs, pieces}, BlockCopyKernel::kThreads, 0, stream, p);
}

void PackRuns(const CudaStream& stream, const PackRunsParams& p) {
  QUIRE_KERNEL_CHECK(Aligned(p.packed) && p.packed_bytes % 16 == 0);
  if (p.num_blocks == 0 || p.packed_bytes == 0) return;
  const int64_t pieces = (p.packed_bytes + PackRunsKernel::kPiece - 1) / PackRunsKernel::kPiece;
  simt::Launch<PackRunsKernel>({p.num_blocks, pieces}, PackRunsKernel::kThreads, 0, stream, p);
}

void RmsNorm(const CudaStream& stream, const RmsNormParams& p) {
  QUIRE_KERNEL_CHECK(p.hidden * ByteSize(p.dtype) % 16 == 0);
  QUIRE_KERNEL_CHECK(Aligned(p.residual) && Aligned(p.delta) && Aligned(p.weight) && Aligned(p.out));
  if (p.num_tokens == 0) return;
  WithType(p.dtype, [&](auto t) {
    using Kernel = RmsNormKernel<decltype(t)>;
    simt::Launch<Kernel>({p.num_tokens}, Kernel::kThreads, Kernel::kSharedSize, stream, p);
  });
}

void LayerNorm(const CudaStream& stream, const LayerNormParams& p) {
  QUIRE_KERNEL_CHECK(p.hidden * ByteSize(p.dtype) % 16 == 0);
  QUIRE_KERNEL_CHECK(Aligned(p.residual) && Aligned(p.delta) && Aligned(p.weight) && Aligned(p.bias) && Aligned(p.out));
  QUIRE_KERNEL_CHECK(p.delta == nullptr || p.out != p.residual);
  if (p.num_tokens == 0) return;
  WithType(p.dtype, [&](auto t) {
    using Kernel = LayerNormKernel<decltype(t)>;
    simt::Launch<Kernel>({p.num_tokens}, Kernel::kThreads, Kernel::kSharedSize, stream, p);
  });
}

void Activate(const CudaStream& stream, const ActivateParams& p) {
  QUIRE_KERNEL_CHECK(p.columns * ByteSize(p.dtype) % 16 == 0 && Aligned(p.rows) && Aligned(p.bias));
  if (p.num_tokens == 0 || p.columns == 0) return;
  WithType(p.dtype, [&](auto t) {
    using Kernel = ActivateKernel<decltype(t)>;
    simt::Launch<Kernel>({p.num_tokens, Pieces<Kernel>(p.columns)}, Kernel::kThreads, 0, stream, p);
  });
}

void AddRows(const CudaStream& stream, const AddRowsParams& p) {
  QUIRE_KERNEL_CHECK(p.columns * ByteSize(p.dtype) % 16 == 0 && Aligned(p.to) && Aligned(p.from));
  QUIRE_KERNEL_CHECK(p.to_stride * ByteSize(p.dtype) % 16 == 0 && p.from_stride * ByteSize(p.dtype) % 16 == 0);
  if (p.num_tokens == 0 || p.columns == 0) return;
  WithType(p.dtype, [&](auto t) {
    using Kernel = AddRowsKernel<decltype(t)>;
    simt::Launch<Kernel>({p.num_tokens, Pieces<Kernel>(p.columns)}, Kernel::kThreads, 0, stream, p);
  });
}

void GateMul(const CudaStream& stream, const GateMulParams& p) {
  QUIRE_KERNEL_CHECK(p.columns * ByteSize(p.dtype) % 16 == 0 && Aligned(p.gate_up) && Aligned(p.out));
  QUIRE_KERNEL_CHECK(!p.interleaved || p.columns % 8 == 0);
  QUIRE_KERNEL_CHECK(p.up == nullptr || (!p.interleaved && Aligned(p.up) && p.up_stride * ByteSize(p.dtype) % 16 == 0));
  if (p.num_tokens == 0 || p.columns == 0) return;
  WithType(p.dtype, [&](auto t) {
    using Kernel = GateMulKernel<decltype(t)>;
    simt::Launch<Kernel>({p.num_tokens, Pieces<Kernel>(p.columns)}, Kernel::kThreads, 0, stream, p);
  });
}

void Embedding(const CudaStream& stream, const EmbeddingParams& p) {
  QUIRE_KERNEL_CHECK(p.table.type == p.dtype && p.table.row_bytes == p.table.cols * ByteSize(p.dtype));
  QUIRE_KERNEL_CHECK(p.table.row_bytes % 16 == 0 && Aligned(p.table.data) && Aligned(p.out));
  if (p.num_tokens == 0 || p.table.cols == 0) return;
  WithType(p.dtype, [&](auto t) {
    using Kernel = EmbeddingKernel<decltype(t)>;
    simt::Launch<Kernel>({p.num_tokens, Pieces<Kernel>(p.table.cols)}, Kernel::kThreads, 0, stream, p);
  });
}

}  // namespace quire::kernels
