#include "kernels/check.h"
#include "kernels/cuda/sampling/sampling_parts.cuh"

// Checks and launches of sampling.
namespace quire::kernels {

namespace {

int64_t Pieces(int64_t vocab) { return vocab == 0 ? 1 : (vocab + kPiece - 1) / kPiece; }

/// Divides the workspace into arrays. With a null base it only counts the bytes.
struct Carver {
  char* base;
  int64_t used = 0;
  template <class T>
  void Take(T*& pointer, int64_t count) {
    pointer = reinterpret_cast<T*>(base + used);
    used += simt::SharedBytes(count * static_cast<int64_t>(sizeof(T)));
  }
};

/// Lays out the workspace and returns its size in bytes.
int64_t Carve(void* base, int64_t num_rows, int64_t vocab, SamplingWorkspace& work) {
  Carver carver{static_cast<char*>(base)};
  const int64_t views = 2 * num_rows, pieces = Pieces(vocab);
  carver.Take(work.edited, num_rows * vocab);
  carver.Take(work.group_max, views * pieces * kSelectThreads);
  carver.Take(work.piece_best, views * pieces);
  carver.Take(work.piece_mass, views * pieces);
  carver.Take(work.state, views);
  carver.Take(work.num_listed, views);
  carver.Take(work.list_logits, views * kListSize);
  carver.Take(work.list_ids, views * kListSize);
  return carver.used;
}

SamplingOp OpOf(const SamplingRows& rows, bool sharded) {
  QUIRE_KERNEL_CHECK(rows.vocab >= 0 && rows.first_id >= 0 && rows.first_id + rows.vocab <= kMaxVocab);
  QUIRE_KERNEL_CHECK(rows.row_stride >= rows.vocab && reinterpret_cast<uintptr_t>(rows.workspace) % 16 == 0);
  SamplingOp op{rows, {}, Pieces(rows.vocab), sharded};
  Carve(rows.workspace, rows.num_rows, rows.vocab, op.work);
  return op;
}

/// Queues all passes over the rows, up to the pass that lists tokens.
void Prepare(const CudaStream& stream, const SamplingOp& op) {
  constexpr int64_t kTile = EditRowsKernel::kTile;
  const int64_t rows = op.in.num_rows, tiles = (op.in.vocab + kTile - 1) / kTile;
  const simt::Dim3 grid{2 * rows, op.pieces};
  if (op.in.edited == nullptr && tiles > 0) {
    simt::Launch<EditRowsKernel>({rows, tiles}, EditRowsKernel::kThreads, EditRowsKernel::kSharedSize, stream, op);
  }
  simt::Launch<ScanRowsKernel>(grid, ScanRowsKernel::kThreads, ScanRowsKernel::kSharedSize, stream, op);
  simt::Launch<FilterRowsKernel>({2 * rows}, FilterRowsKernel::kThreads, FilterRowsKernel::kSharedSize, stream, op);
  simt::Launch<ListTokensKernel>(grid, ListTokensKernel::kThreads, ListTokensKernel::kSharedSize, stream, op);
}

}  // namespace

int64_t SamplingWorkspaceBytes(int64_t num_rows, int64_t vocab) {
  SamplingWorkspace work;
  return Carve(nullptr, num_rows, vocab, work);
}

void SampleRows(const CudaStream& stream, const SamplingRows& rows, DrawnToken* drawn) {
  if (rows.num_rows == 0) return;
  QUIRE_KERNEL_CHECK(rows.vocab > 0);
  const SamplingOp op = OpOf(rows, false);
  Prepare(stream, op);
  using Kernel = DrawRowsKernel;
  simt::Launch<Kernel>({rows.num_rows}, Kernel::kThreads, Kernel::kSharedSize, stream, {op, drawn});
}

int64_t ShardPartBytes(int64_t num_rows, int num_candidates) {
  return 2 * num_rows * ShardPart::RowBytes(num_candidates);
}

void SummarizeShard(const CudaStream& stream, const SamplingRows& rows, int num_candidates, void* part) {
  QUIRE_KERNEL_CHECK(num_candidates >= 0 && num_candidates <= kMaxShardCandidates);
  if (rows.num_rows == 0) return;
  const SamplingOp op = OpOf(rows, true);
  Prepare(stream, op);
  using Kernel = SummarizeShardKernel;
  simt::Launch<Kernel>({2 * rows.num_rows}, Kernel::kThreads, Kernel::kSharedSize, stream,
                       {op, {part, rows.num_rows, num_candidates}});
}

void DrawFromParts(const CudaStream& stream, const DrawFromPartsParams& p) {
  QUIRE_KERNEL_CHECK(p.num_shards > 0 && int64_t{p.num_shards} * p.num_candidates <= kListSize);
  if (p.num_rows == 0) return;
  using Kernel = DrawFromPartsKernel;
  simt::Launch<Kernel>({p.num_rows}, Kernel::kThreads, Kernel::kSharedSize, stream, p);
}

void DrawInShard(const CudaStream& stream, const SamplingRows& rows, const ShardDraw* draws, int shard,
                 ShardToken* tokens) {
  if (rows.num_rows == 0) return;
  using Kernel = DrawInShardKernel;
  simt::Launch<Kernel>({rows.num_rows}, Kernel::kThreads, Kernel::kSharedSize, stream,
                       {OpOf(rows, true), draws, shard, tokens});
}

void PackRows(const CudaStream& stream, const SamplingRows& rows, const PackRowsParams& p) {
  if (p.count == 0 || rows.vocab == 0) return;
  using Kernel = PackRowsKernel;
  const int64_t pieces = (rows.vocab + Kernel::kTile - 1) / Kernel::kTile;
  simt::Launch<Kernel>({p.count, pieces}, Kernel::kThreads, 0, stream, {OpOf(rows, true), p});
}

void MergeShardDraws(const CudaStream& stream, const DrawFromPartsParams& p, const ShardToken* tokens) {
  if (p.num_rows == 0) return;
  using Kernel = MergeShardDrawsKernel;
  simt::Launch<Kernel>({(p.num_rows + Kernel::kThreads - 1) / Kernel::kThreads}, Kernel::kThreads, 0, stream,
                       {p, tokens});
}

}  // namespace quire::kernels
