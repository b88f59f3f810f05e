#pragma once

#include "kernels/cuda/sampling/sampling.h"

// Sampling from a sharded vocabulary. Each rank summarises its shard, the summaries are gathered, and every rank
// samples the same tokens from all summaries. If the summaries do not decide a row, the shard that has the token finds
// the token, or the token is sampled from the whole row. The order of calls: SummarizeShard -> all-gather ->
// DrawFromParts [-> DrawInShard -> all-gather -> MergeShardDraws] [-> PackRows -> all-gather -> SampleRows]
namespace quire::kernels {

/// Returns the bytes of one rank's part. For every row, the part has the best token, the mass and the num_candidates
/// best tokens (at most kMaxShardCandidates; 0 suffices if no row uses top-k, top-p, min-p or top log-probabilities).
/// Workspaces stay in use until DrawInShard and PackRows have run.
int64_t ShardPartBytes(int64_t num_rows, int num_candidates);
void SummarizeShard(const CudaStream& stream, const SamplingRows& rows, int num_candidates, void* part);

/// How far the sampling of a row has come.
enum class DrawState : int32_t {
  kDone,
  kInShard,   // DrawInShard and MergeShardDraws complete the row
  kWholeRow,  // the candidates do not decide: gather PackRows' output for SampleRows
};
struct ShardDraw {
  DrawState state;
  int32_t shard;       // with kInShard: the shard of the token
  uint64_t target;     // with kInShard: mass of that shard before the token
  double log_sum_exp;  // over the raw row, if log-probabilities are requested
};
/// Samples from the parts of all ranks, ordered by the token ids of their shards. Every rank gets the same results.
struct DrawFromPartsParams {
  const DeviceSampling* rows;  // [num_rows]
  const void* parts;           // num_shards parts
  int64_t num_rows;
  int num_shards, num_candidates;
  DrawnToken* drawn;  // [num_rows]
  ShardDraw* draws;   // [num_rows]
};
void DrawFromParts(const CudaStream& stream, const DrawFromPartsParams& params);

/// DrawInShard's result for one row: the sampled token and its raw logit if the row is kInShard and this shard has the
/// token; otherwise token -1.
struct ShardToken {
  int32_t token;
  float raw;
};
void DrawInShard(const CudaStream& stream, const SamplingRows& rows, const ShardDraw* draws, int shard,
                 ShardToken* tokens /* [num_rows] */);
/// Completes the kInShard rows: copies each row's token from the shard that has it. tokens: [num_shards, num_rows],
/// what DrawInShard found on all ranks.
void MergeShardDraws(const CudaStream& stream, const DrawFromPartsParams& params, const ShardToken* tokens);

/// Copies this shard's logits, raw and edited, of the rows in row_ids (the kWholeRow rows). Call after SummarizeShard.
struct PackRowsParams {
  const int32_t* row_ids;  // [count]
  int64_t count;
  float* raw;     // [count, vocab]
  float* edited;  // [count, vocab]
};
void PackRows(const CudaStream& stream, const SamplingRows& rows, const PackRowsParams& params);

}  // namespace quire::kernels
