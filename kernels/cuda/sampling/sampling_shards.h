#pragma once

#include "kernels/cuda/sampling/sampling.h"

// Drawing from a vocabulary in shards: each rank summarises its own, the summaries are gathered, and every rank draws
// the same tokens from all of them. What the summaries do not decide is drawn by the shard that the token lies in, or
// from whole rows.
//   SummarizeShard -> all-gather -> DrawFromParts [-> DrawInShard -> all-gather -> MergeShardDraws] [-> PackRows -> ..]
namespace quire::kernels {

/// With the vocabulary in shards. A rank's part is ShardPartBytes(num_rows, num_candidates) that say what the others
/// need to know of every row: best token, mass and its num_candidates best tokens (at most kMaxShardCandidates; 0 is
/// enough where no row has top-k, top-p, min-p or top log-probabilities). Workspaces stay in use until DrawInShard.
int64_t ShardPartBytes(int64_t num_rows, int num_candidates);
void SummarizeShard(const CudaStream& stream, const SamplingRows& rows, int num_candidates, void* part);

/// What became of a row.
enum class DrawState : int32_t {
  kDone,
  kInShard,   // DrawInShard and MergeShardDraws finish it
  kWholeRow,  // the candidates do not decide: gather what PackRows gives for SampleRows
};
struct ShardDraw {
  DrawState state;
  int32_t shard;       // kInShard: where the token lies ..
  uint64_t target;     // .. and how much of that shard's mass comes before it
  double log_sum_exp;  // of the raw row, when log-probabilities are asked for
};
/// Draws from all parts, which lie one after the other in the order of their ids. Every rank gets the same results.
struct DrawFromPartsParams {
  const DeviceSampling* rows;  // [num_rows]
  const void* parts;           // num_shards parts
  int64_t num_rows;
  int num_shards, num_candidates;
  DrawnToken* drawn;  // [num_rows]
  ShardDraw* draws;   // [num_rows]
};
void DrawFromParts(const CudaStream& stream, const DrawFromPartsParams& params);

/// The token of each kInShard row that lies in this shard, and its raw logit; token -1 for all others.
struct ShardToken {
  int32_t token;
  float raw;
};
void DrawInShard(const CudaStream& stream, const SamplingRows& rows, const ShardDraw* draws, int shard,
                 ShardToken* tokens /* [num_rows] */);
/// tokens: [num_shards, num_rows], gathered. Completes drawn.
void MergeShardDraws(const CudaStream& stream, const DrawFromPartsParams& params, const ShardToken* tokens);

/// For rows that became kWholeRow: copies them, raw and as lists and penalties left them. Follows SummarizeShard.
struct PackRowsParams {
  const int32_t* row_ids;  // [count]
  int64_t count;
  float* raw;     // [count, vocab]
  float* edited;  // [count, vocab]
};
void PackRows(const CudaStream& stream, const SamplingRows& rows, const PackRowsParams& params);

}  // namespace quire::kernels
