#include "worker/cuda/step/step_builder.h"

#include <algorithm>
#include <span>

#include "kernels/cuda/paged/paged_decode.h"
#include "worker/sampling/pooler.h"

namespace quire {

int64_t PaddedRows(int64_t decodes) {
  const auto up_to = [&](int64_t multiple) { return (decodes + multiple - 1) / multiple * multiple; };
  if (decodes <= 2) return decodes;
  if (decodes <= 16) return up_to(4);
  return decodes <= 64 ? up_to(8) : up_to(16);
}

int32_t PaddedContext(int32_t longest, int32_t most) {
  int64_t context = kernels::kDecodePartition;
  while (context < longest) context *= 2;
  return static_cast<int32_t>(std::min<int64_t>(context, most));
}

namespace {

/// Returns the first member after the decodes at the beginning of the batch.
auto FirstChunk(const std::vector<BatchMember>& batch, const SequenceTable& table, const StepBuilderSizes& sizes) {
  return std::ranges::find_if_not(batch, [&](const BatchMember& m) {
    return m.count == 1 && m.draws && !sizes.decodes_as_chunks && !PoolsRows(m, table.at(m.slot));
  });
}

class Builder {
 public:
  Builder(const SequenceTable& table, const StepBuilderSizes& sizes, const StepLimits& limits, StepArrays& arrays)
      : table_(table), sizes_(sizes), limits_(limits), arrays_(arrays) {}

  StepShape Build(const std::vector<BatchMember>& batch) {
    if (sizes_.state_blocks > 0) arrays_.state_start[0] = 0;
    const auto first_chunk = FirstChunk(batch, table_, sizes_);
    for (auto m = batch.begin(); m != first_chunk; ++m) AddDecode(*m);
    if (first_chunk == batch.end()) {
      while (shape_.num_rows < PaddedRows(shape_.num_decodes)) AddPadding();
      shape_.num_decodes = shape_.num_draws = shape_.num_rows;
    }
    if (shape_.num_decodes > 0) PlanDecodes();
    arrays_.chunk_start[0] = 0;
    for (auto m = first_chunk; m != batch.end(); ++m) AddChunk(*m);
    for (size_t kind = 0; shape_.num_chunks > 0 && kind < sizes_.attention.size(); ++kind) PlanChunks(kind);
    return shape_;
  }

 private:
  void AddRow(const BatchMember& member, int position) {
    const SequenceState& s = table_.at(member.slot);
    const TokenId token = s.tokens[static_cast<size_t>(position)];
    const BlockId block = s.blocks[static_cast<size_t>(position / sizes_.block_size)];
    const int64_t row = shape_.num_rows++;
    arrays_.token_ids[row] = token == kPendingToken ? 0 : token;
    arrays_.from_slot[row] = token == kPendingToken ? static_cast<int32_t>(member.slot) : -1;
    arrays_.positions[row] = position;
    arrays_.slots[row] = int64_t{block} * sizes_.block_size + position % sizes_.block_size;
  }

  void AddDecode(const BatchMember& member) {
    AddRow(member, member.start);
    const int64_t i = shape_.num_decodes++;
    arrays_.decode_context[i] = member.start + 1;
    arrays_.decode_table[i] = static_cast<int32_t>(member.slot);
    arrays_.draw_row[shape_.num_draws++] = static_cast<int32_t>(i);
    AddState(i, member.start + 1, table_.at(member.slot).state);
  }

  void AddPadding() {
    const int64_t row = shape_.num_rows++;
    arrays_.token_ids[row] = 0;
    arrays_.from_slot[row] = -1;
    arrays_.positions[row] = 0;
    arrays_.slots[row] = -1;
    arrays_.decode_context[row] = 0;
    arrays_.decode_table[row] = 0;
    arrays_.draw_row[row] = static_cast<int32_t>(row);
    AddState(row, 0, {});
  }

  /// Adds the state of sequence `i`, after the rows of this sequence were added. A plan gives each state as many blocks
  /// as any rank needs; this rank's part is in the first sizes_.state_blocks of these blocks.
  void AddState(int64_t i, int32_t context, std::span<const BlockId> blocks) {
    if (sizes_.state_blocks == 0) return;
    arrays_.state_start[i + 1] = static_cast<int32_t>(shape_.num_rows);
    arrays_.state_context[i] = context;
    if (context > 0) std::copy_n(blocks.begin(), sizes_.state_blocks, arrays_.state_blocks + i * sizes_.state_blocks);
  }

  void AddChunk(const BatchMember& member) {
    for (int position = member.start; position < member.start + member.count; ++position) AddRow(member, position);
    const int64_t i = shape_.num_chunks++;
    arrays_.chunk_start[i + 1] = arrays_.chunk_start[i] + member.count;
    arrays_.chunk_context[i] = member.start + member.count;
    arrays_.chunk_table[i] = static_cast<int32_t>(member.slot);
    AddState(shape_.num_decodes + i, member.start + member.count, table_.at(member.slot).state);
    if (member.draws) arrays_.draw_row[shape_.num_draws++] = static_cast<int32_t>(shape_.num_rows) - 1;
    shape_.keeps_rows = shape_.keeps_rows || member.scores.count > 0 || PoolsRows(member, table_.at(member.slot));
  }

  void PlanDecodes() {
    const std::span<const int32_t> contexts(arrays_.decode_context, static_cast<size_t>(shape_.num_decodes));
    if (sizes_.unplanned_context > 0) {
      shape_.max_context = PaddedContext(*std::ranges::max_element(contexts), sizes_.unplanned_context);
      return;
    }
    for (size_t kind = 0; kind < sizes_.attention.size(); ++kind) {
      const AttentionSizes& sizes = sizes_.attention[kind];
      const std::span<int32_t> work(arrays_.decode_work[kind], static_cast<size_t>(limits_.decode_words[kind]));
      shape_.combines[kind] =
          kernels::PlanDecode(sizes.DecodeWork(shape_.num_decodes), contexts, sizes.head_start, sizes.window, work)
              .combine;
    }
  }

  void PlanChunks(size_t kind) {
    const AttentionSizes& sizes = sizes_.attention[kind];
    const auto chunks = static_cast<size_t>(shape_.num_chunks);
    shape_.chunk_work[kind] =
        kernels::PlanPrefill({{arrays_.chunk_start, chunks + 1},
                              {arrays_.chunk_context, chunks},
                              sizes.head_start,
                              sizes.tile_rows,
                              sizes.window,
                              sizes.split},
                             {arrays_.tiles[kind], static_cast<size_t>(limits_.prefill_tiles[kind])},
                             {arrays_.merges[kind], static_cast<size_t>(limits_.prefill_merges[kind])});
  }

  const SequenceTable& table_;
  const StepBuilderSizes& sizes_;
  const StepLimits& limits_;
  StepArrays& arrays_;
  StepShape shape_;
};

}  // namespace

namespace {

/// Returns the sizes of the arrays of a step. chunk_rows: tokens in chunks of prompts. A step without chunks has no
/// tiles, and a step without decodes has no work list.
StepLimits Limits(const StepBuilderSizes& sizes, int64_t tokens, int64_t sequences, int64_t decodes,
                  int64_t chunk_rows) {
  StepLimits limits{.tokens = tokens, .sequences = sequences, .state_blocks = sizes.state_blocks};
  for (size_t kind = 0; kind < sizes.attention.size(); ++kind) {
    const AttentionSizes& attention = sizes.attention[kind];
    if (decodes > 0) limits.decode_words[kind] = attention.DecodeWork(decodes).Words();
    if (chunk_rows == 0) continue;
    const int32_t group = kernels::LargestPrefillGroup(attention.head_start);
    limits.prefill_tiles[kind] =
        kernels::PrefillTileCapacity(chunk_rows, sequences, group, attention.tile_rows, attention.split);
    limits.prefill_merges[kind] = attention.split.MaxMerges();
  }
  return limits;
}

}  // namespace

StepLimits MostOfSteps(const StepBuilderSizes& sizes, int64_t tokens, int64_t sequences) {
  return Limits(sizes, tokens, sequences, sequences, tokens);
}

StepLimits LimitsOfStep(const std::vector<BatchMember>& batch, const SequenceTable& table,
                        const StepBuilderSizes& sizes) {
  const auto first_chunk = FirstChunk(batch, table, sizes);
  const int64_t decodes = first_chunk - batch.begin();
  if (first_chunk == batch.end()) {
    const int64_t rows = PaddedRows(decodes);
    return Limits(sizes, rows, rows, rows, 0);
  }
  int64_t chunk_rows = 0;
  for (auto m = first_chunk; m != batch.end(); ++m) chunk_rows += m->count;
  return Limits(sizes, decodes + chunk_rows, static_cast<int64_t>(batch.size()), decodes, chunk_rows);
}

StepShape BuildStep(const std::vector<BatchMember>& batch, const SequenceTable& table, const StepBuilderSizes& sizes,
                    const StepLimits& limits, StepArrays& arrays) {
  return Builder(table, sizes, limits, arrays).Build(batch);
}

}  // namespace quire
