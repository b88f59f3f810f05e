#pragma once

#include <cstdint>

#include "kernels/cuda/sampling/sampling_shards.h"

// State of running sequences that stays on the device between steps, so that a step uploads only changes. A
// launch is as large as its arrays. Entries of -1 are padding, so that a captured graph can run with fewer
// entries.
namespace quire::kernels {

/// table[row, index] = block for every entry: changes of block tables, or whole new tables. No (row, index) may occur
/// twice.
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

/// out[r] = in[row_ids[r]] for ids other than -1. Gathers the rows that the output head needs.
struct GatherRowsParams {
  const void* in;          // 16-byte aligned, like out
  const int32_t* row_ids;  // [count]
  int64_t count;
  int64_t row_bytes;  // a multiple of 16
  void* out;          // [count, row_bytes]
};
void GatherRows(const CudaStream& stream, const GatherRowsParams& params);

/// token_ids[t] = last_token[from_slot[t]] where from_slot[t] is not -1: tokens that the previous step has sampled.
struct FeedTokensParams {
  const int32_t* from_slot;   // [num_tokens]
  const int32_t* last_token;  // [max_running]
  int32_t* token_ids;         // [num_tokens]
  int64_t num_tokens;
};
void FeedTokens(const CudaStream& stream, const FeedTokensParams& params);

/// Counts of tokens in 15 saturating bits: how often a token was generated. The top bit marks tokens of the prompt.
struct CountTable {
  uint16_t* counts;  // [slots, stride]
  int64_t stride;
  int64_t vocab;  // vocabulary size of this shard
  int32_t first_id;
};
/// last_token[slot[r]] = drawn[r].token, and increments the token's count if the row has a count slot. Skips rows with
/// slot -1, rows that sample no token, and rows with state kWholeRow. Slots and count slots must be distinct.
struct KeepTokensParams {
  const DeviceSampling* rows;  // [num_rows]
  const DrawnToken* drawn;     // [num_rows]
  const ShardDraw* draws;      // [num_rows]; null: every row's token is already final
  const int32_t* slot;         // [num_rows]
  int64_t num_rows;
  int32_t* last_token;  // [max_running]
  CountTable table;
};
void KeepTokens(const CudaStream& stream, const KeepTokensParams& params);

/// Counts a sequence's tokens again: clears its row of counts, marks tokens [begin, prompt_end) as the prompt's, and
/// counts tokens [prompt_end, end) as generated.
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
