#pragma once

#include <cstdint>

#include "kernels/stream.h"

// Drawing tokens on the device, with the meaning of kernels/sampling.h. Every sum that decides a draw is an integer, so
// that a token depends neither on the launch shape nor on the order of atomics. No size is read on the host, and rows
// that do not draw are skipped: a launch may be captured in a graph.
namespace quire::kernels {

constexpr int kMaxTopLogprobs = 20, kMaxShardCandidates = 128;
constexpr int64_t kMaxVocab = int64_t{1} << 19;  // sums of weights stay below 2^63

/// How one row draws. Lists of biases and bans are [begin, end) of the op's arrays, each token at most once in a list.
struct DeviceSampling {
  int32_t draws;  // 0: a padded row; nothing of it is read or written
  float temperature, top_p, min_p;
  int32_t top_k;
  float repetition, frequency, presence;
  uint64_t seed, position;
  uint32_t choice;
  int32_t num_logprobs;  // -1: no log-probabilities; at most kMaxTopLogprobs
  int32_t bias_begin, bias_end, ban_begin, ban_end;
  int32_t count_slot;  // row of the count table; -1: no penalties
};

/// What a row drew. Log-probabilities are of the raw logits, best first; without being asked for, `logprob` is 0 and
/// the rest stays unwritten. `logprob` is NaN where the highest logit was not finite.
struct DrawnToken {
  int32_t token;
  float logprob;
  int32_t num_top;
  int32_t top_token[kMaxTopLogprobs];
  float top_logprob[kMaxTopLogprobs];
};

/// Logits of one shard of the vocabulary (or all of it) and what changes them.
struct SamplingRows {
  const DeviceSampling* rows;  // [num_rows]
  const float* logits;         // [num_rows, row_stride], of which vocab count; NaN counts as -infinity
  int64_t num_rows, row_stride, vocab;
  int32_t first_id;           // of the shard; lists name tokens of the whole vocabulary
  const int32_t* bias_token;  // added first
  const float* bias;
  const int32_t* banned;   // then -infinity
  const uint16_t* counts;  // [slots, count_stride]: times generated, top bit: occurs in the prompt; then penalties
  int64_t count_stride;
  /// [num_rows, vocab] rows that were changed already, or null. Given, lists and counts are not read.
  const float* edited;
  void* workspace;  // SamplingWorkspaceBytes(num_rows, vocab), 16-byte aligned; of no use after the op
};
int64_t SamplingWorkspaceBytes(int64_t num_rows, int64_t vocab);

/// Draws from whole rows: vocab is all of it and first_id is 0.
void SampleRows(const CudaStream& stream, const SamplingRows& rows, DrawnToken* drawn /* [num_rows] */);

}  // namespace quire::kernels
