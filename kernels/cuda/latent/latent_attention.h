#pragma once

#include "kernels/cuda/decode/decode_attention.h"
#include "kernels/cuda/prefill/prefill_attention.h"

// Latent attention (comm/model/latent_attention.h) in the absorbed form, for prompts and for decodes: all query heads
// of a rank share one key head of rotated_dim + rank numbers, and the values are the last `rank` numbers of the keys.
// The cache holds these numbers once: PagedCache::keys with num_kv_heads 1 and head_size rotated_dim + rank. The
// kernels do not read PagedCache::values, and k_scale must equal v_scale.
namespace quire::kernels {

/// The sizes for which there are tensor-core kernels: those of DeepSeek-V2 to R1, Kimi-K2 and GLM-4.7-Flash.
inline constexpr int32_t kLatentRank = 512, kLatentHeadSize = 576;
/// The largest sizes for which there is any kernel.
inline constexpr int32_t kMostLatentRank = 512, kMostLatentHeadSize = 640;

/// True if tensor cores compute latent attention of this type and these sizes. Otherwise there is only LatentPrefill,
/// which then computes row by row without tensor cores.
constexpr bool HasLatentTiles(NumberType dtype, int32_t head_size, int32_t rank) {
  return dtype != NumberType::kF32 && head_size == kLatentHeadSize && rank == kLatentRank;
}

/// kLatentTokens: tokens of a tile in shared memory. kLatentScoreStride: floats from one row of a tile's scores to the
/// next.
inline constexpr int32_t kLatentTokens = 32, kLatentScoreStride = kLatentTokens + 8;

/// Returns the shared memory in bytes of a tensor-core thread block with this many rows: queries, two tiles (one wide
/// and one raw with an FP8 cache), scores.
constexpr int64_t LatentSharedBytes(bool fp8_cache, int64_t rows) {
  const int64_t tile = int64_t{kLatentTokens} * kLatentHeadSize;
  return rows * kLatentHeadSize * 2 + tile * (fp8_cache ? 3 : 4) + rows * kLatentScoreStride * 4;
}

/// Returns the rows of a prefill tile: 64 on tensor cores, or 16 where a thread block has too little shared memory for
/// them; 32 without tensor cores.
constexpr int32_t LatentTileRows(NumberType dtype, int32_t head_size, int32_t rank, int64_t shared_per_block) {
  if (!HasLatentTiles(dtype, head_size, rank)) return 32;
  return LatentSharedBytes(false, 64) <= shared_per_block ? 64 : kDecodeRows;
}

/// Returns the grid of LatentDecode: at most two thread blocks for each SM. `stages` is unused.
constexpr DecodeGrid ChooseLatentGrid(const DecodeDevice& device) {
  constexpr int64_t kReserved = 1024;  // reserved by the system for each thread block
  const bool two = 2 * (LatentSharedBytes(false, kDecodeRows) + kReserved) <= device.shared_per_sm;
  return {device.num_sms * (two ? 2 : 1), 2};
}

/// Attention of prompt chunks, as PrefillAttention computes it, except for these differences:
///   out: [num_tokens, num_heads, rank];
///   alibi_slopes and sinks are null, soft_cap and window are 0, in_groups is false;
///   tiles: planned with `tile_rows` rows, which LatentTileRows returns;
///   workspace: PrefillSplit::WorkspaceFloats(tile_rows, rank). Tiles of 32 rows are not split.
/// head_size is a multiple of 16 bytes of the cache's type, at most kMostLatentHeadSize; rank at most kMostLatentRank.
void LatentPrefill(const CudaStream& stream, const PrefillAttentionParams& params, int32_t rank, int32_t tile_rows);

/// Attention of one new token per sequence, as DecodeAttention computes it, for sizes that HasLatentTiles. The
/// differences:
///   out: [num_seqs, num_heads, rank];
///   alibi_slopes and sinks are null, soft_cap is 0, the work list is planned without a window;
///   workspace: DecodeWorkSize::WorkspaceFloats(rank). stages is unused.
void LatentDecode(const CudaStream& stream, const DecodeAttentionParams& params, int32_t rank);

}  // namespace quire::kernels
