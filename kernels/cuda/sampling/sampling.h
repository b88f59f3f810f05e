#pragma once

#include <cstdint>

#include "kernels/stream.h"

// Samples tokens on the device, with the meaning of kernels/sampling.h. Every sum that decides on a token is an
// integer, so a token depends neither on the launch's shape nor on the order of atomics. The host reads no sizes, and
// rows that sample nothing are skipped, so a launch can be captured in a graph.
namespace quire::kernels {

constexpr int kMaxTopLogprobs = 20, kMaxShardCandidates = 128;
constexpr int64_t kMaxVocab = int64_t{1} << 19;  // sums of weights stay below 2^63

/// The settings with which one row is sampled. Lists of biases and bans are ranges [begin, end) of the operation's
/// arrays, without repeated tokens.
struct DeviceSampling {
  int32_t draws;  // 0: a padding row, which is neither read nor written
  float temperature, top_p, min_p;
  int32_t top_k;
  float repetition, frequency, presence;
  uint64_t seed, position;
  uint32_t choice;
  int32_t num_logprobs;  // -1: no log-probabilities; at most kMaxTopLogprobs
  int32_t bias_begin, bias_end, ban_begin, ban_end;
  int32_t count_slot;  // row of the count table; -1: no penalties
};

/// The result of one row. Log-probabilities are of the raw logits, the best first. If none were requested, `logprob` is
/// 0, and num_top and the arrays are not written. `logprob` is NaN if the highest edited logit was not finite.
struct DrawnToken {
  int32_t token;
  float logprob;
  int32_t num_top;
  int32_t top_token[kMaxTopLogprobs];
  float top_logprob[kMaxTopLogprobs];
};

/// The logits of one shard of the vocabulary (or of the whole vocabulary), and how they are edited.
struct SamplingRows {
  const DeviceSampling* rows;  // [num_rows]
  const float* logits;         // [num_rows, row_stride], the first vocab columns; NaN counts as -infinity
  int64_t num_rows, row_stride, vocab;
  int32_t first_id;           // first token id of the shard; lists use ids of the whole vocabulary
  const int32_t* bias_token;  // biases are applied first
  const float* bias;
  const int32_t* banned;   // then bans set -infinity
  const uint16_t* counts;  // [slots, count_stride]: generated count, top bit: in the prompt; then penalties
  int64_t count_stride;
  /// [num_rows, vocab], or null: rows that were edited before. Lists and counts are then not read.
  const float* edited;
  void* workspace;  // SamplingWorkspaceBytes(num_rows, vocab), 16-byte aligned; scratch
};
int64_t SamplingWorkspaceBytes(int64_t num_rows, int64_t vocab);

/// Samples from whole rows: vocab is the whole vocabulary and first_id is 0.
void SampleRows(const CudaStream& stream, const SamplingRows& rows, DrawnToken* drawn /* [num_rows] */);

}  // namespace quire::kernels
