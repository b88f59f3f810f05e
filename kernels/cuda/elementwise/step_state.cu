#include "kernels/check.h"
#include "kernels/cuda/elementwise/step_state.cuh"
#include "kernels/cuda/launch.cuh"

// Checks the parameters of the operations on the running sequences' state, and launches their kernels.
namespace quire::kernels {

namespace {

/// Launches one thread per item.
template <class Kernel>
void LaunchFlat(const CudaStream& stream, int64_t count, const typename Kernel::Params& params) {
  if (count == 0) return;
  simt::Launch<Kernel>({(count + Kernel::kThreads - 1) / Kernel::kThreads}, Kernel::kThreads, 0, stream, params);
}

}  // namespace

void ScatterTable(const CudaStream& stream, const ScatterTableParams& p) {
  LaunchFlat<ScatterTableKernel>(stream, p.num_entries, p);
}

void GatherRows(const CudaStream& stream, const GatherRowsParams& p) {
  QUIRE_KERNEL_CHECK(p.row_bytes % 16 == 0 && Aligned(p.in) && Aligned(p.out));
  if (p.count == 0 || p.row_bytes == 0) return;
  const int64_t pieces = (p.row_bytes + GatherRowsKernel::kPiece - 1) / GatherRowsKernel::kPiece;
  simt::Launch<GatherRowsKernel>({p.count, pieces}, GatherRowsKernel::kThreads, 0, stream, p);
}

void FeedTokens(const CudaStream& stream, const FeedTokensParams& p) {
  LaunchFlat<FeedTokensKernel>(stream, p.num_tokens, p);
}

void KeepTokens(const CudaStream& stream, const KeepTokensParams& p) {
  LaunchFlat<KeepTokensKernel>(stream, p.num_rows, p);
}

void FillCounts(const CudaStream& stream, const FillCountsParams& p) {
  QUIRE_KERNEL_CHECK(p.table.stride >= p.table.vocab);
  if (p.num_sequences == 0) return;
  simt::Launch<FillCountsKernel>({p.num_sequences}, FillCountsKernel::kThreads, 0, stream, p);
}

}  // namespace quire::kernels
