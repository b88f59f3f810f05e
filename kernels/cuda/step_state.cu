#include "kernels/check.h"
#include "kernels/cuda/step_state.cuh"

// Checks and launches of the ops on the state of running sequences.
namespace quire::kernels {

namespace {

bool Aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

/// Launches one thread for each of `count` items.
template <class Kernel>
void LaunchFlat(const CudaStream& stream, int64_t count, const typename Kernel::Params& params) {
  if (count == 0) return;
  simt::Launch<Kernel>({(count + Kernel::kThreads - 1) / Kernel::kThreads}, Kernel::kThreads, 0, stream, params);
}

void MoveRows(const CudaStream& stream, int64_t count, const MoveRowsKernel::Params& p) {
  QUIRE_KERNEL_CHECK(p.row_bytes % 16 == 0 && Aligned(p.in) && Aligned(p.out));
  if (count == 0 || p.row_bytes == 0) return;
  const int64_t pieces = (p.row_bytes + MoveRowsKernel::kPiece - 1) / MoveRowsKernel::kPiece;
  simt::Launch<MoveRowsKernel>({count, pieces}, MoveRowsKernel::kThreads, 0, stream, p);
}

}  // namespace

void ScatterTable(const CudaStream& stream, const ScatterTableParams& p) {
  LaunchFlat<ScatterTableKernel>(stream, p.num_entries, p);
}

void CopyRows(const CudaStream& stream, const CopyRowsParams& p) {
  MoveRows(stream, p.count, {p.rows, p.from, p.staging, nullptr, p.to, p.row_bytes});
  MoveRows(stream, p.count, {p.staging, nullptr, p.rows, p.to, p.to, p.row_bytes});
}

void GatherRows(const CudaStream& stream, const GatherRowsParams& p) {
  MoveRows(stream, p.count, {p.in, p.row_ids, p.out, nullptr, p.row_ids, p.row_bytes});
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
