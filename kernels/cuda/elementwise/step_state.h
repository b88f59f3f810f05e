#pragma once

#include <cstdint>

#include "kernels/cuda/sampling/sampling_shards.h"

// What the device keeps of running sequences from step to step, so that a step needs only what is new. Every launch has
// the size of its arrays; entries of -1 are padding, which lets a graph run with fewer than it was captured for.
namespace quire::kernels {

/// table[row, index] = block for every entry: what was added to block tables, or whole new ones. No place twice.
struct TableEntry {
  int32_t row;  // -1: padding
  int32_t index, block;
};
struct ScatterTableParams {
  const TableEntry* entries;  // [num_entries]
  int64_t num_entries;
  int32_t* table;  // [max_running, table_stride]
  int64_t table_stride;
};
void ScatterTable(const CudaStream& stream, const ScatterTableParams& params);

/// out[r] = in[row_ids[r]], for rows with an id that is not -1: those that draw go through the LM head.
struct GatherRowsParams {
  const void* in;          // 16-byte aligned, as is out
  const int32_t* row_ids;  // [count]
  int64_t count;
  int64_t row_bytes;  // a multiple of 16
  void* out;          // [count, row_bytes]
};
void GatherRows(const CudaStream& stream, const GatherRowsParams& params);

/// token_ids[t] = last_token[from_slot[t]] where from_slot[t] is not -1: tokens that the step before drew.
struct FeedTokensParams {
  const int32_t* from_slot;   // [num_tokens]
  const int32_t* last_token;  // [max_running]
  int32_t* token_ids;         // [num_tokens]
  int64_t num_tokens;
};
void FeedTokens(const CudaStream& stream, const FeedTokensParams& params);

/// Times that tokens were generated, in 15 bits that stop at the top, and a top bit for those of the prompt.
struct CountTable {
  uint16_t* counts;  // [slots, stride]
  int64_t stride;
  int64_t vocab;  // of this shard
  int32_t first_id;
};
/// last_token[slot[r]] = drawn[r].token, and one more in the row's counts. Rows with slot -1, without draws or
/// with state kWholeRow are skipped; slots and count slots are distinct.
struct KeepTokensParams {
  const DeviceSampling* rows;  // [num_rows]
  const DrawnToken* drawn;     // [num_rows]
  const ShardDraw* draws;      // [num_rows], or null: every row is done
  const int32_t* slot;         // [num_rows]
  int64_t num_rows;
  int32_t* last_token;  // [max_running]
  CountTable table;
};
void KeepTokens(const CudaStream& stream, const KeepTokensParams& params);

/// Counts of a sequence from scratch: the row is cleared, then tokens [begin, prompt_end) are marked as the prompt's
/// and [prompt_end, end) counted as generated.
struct CountedSequence {
  int32_t count_slot;  // -1: padding
  int32_t begin, prompt_end, end;
};
struct FillCountsParams {
  const CountedSequence* sequences;  // [num_sequences]
  int64_t num_sequences;
  const int32_t* tokens;
  CountTable table;
};
void FillCounts(const CudaStream& stream, const FillCountsParams& params);

}  // namespace quire::kernels
