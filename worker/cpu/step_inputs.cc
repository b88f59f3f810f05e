#include "worker/cpu/step_inputs.h"

#include <algorithm>

namespace quire {

void StepInputs::Clear() {
  token_ids.clear();
  positions.clear();
  token_types.clear();
  slots.clear();
  query_start.assign(1, 0);
  context_len.clear();
  first_position.clear();
  block_tables.clear();
  draw_rows.clear();
  state_blocks.clear();
  held_rows.clear();
  adapters.clear();
  hidden.clear();
  context_begin.clear();
  table_stride = state_stride = 0;
}

void StepInputs::Build(const SequenceTable& table, const std::vector<BatchMember>& batch, int block_size) {
  Clear();
  for (const BatchMember& member : batch) {
    table_stride = std::max(table_stride, static_cast<int64_t>(table.at(member.slot).blocks.size()));
  }
  block_tables.assign(batch.size() * static_cast<size_t>(table_stride), kNullBlock);
  for (size_t s = 0; s < batch.size(); ++s) {
    const BatchMember& member = batch[s];
    const SequenceState& sequence = table.at(member.slot);
    for (int position = member.start; position < member.start + member.count; ++position) {
      token_ids.push_back(sequence.tokens[static_cast<size_t>(position)]);
      positions.push_back(position);
      const int second = sequence.sampling.second_text;
      token_types.push_back(second > 0 && position >= second ? 1 : 0);
      const BlockId block = sequence.blocks[static_cast<size_t>(position / block_size)];
      slots.push_back(int64_t{block} * block_size + position % block_size);
    }
    query_start.push_back(static_cast<int32_t>(token_ids.size()));
    context_len.push_back(member.start + member.count);
    first_position.push_back(member.start);
    std::copy(sequence.blocks.begin(), sequence.blocks.end(),
              block_tables.begin() + static_cast<ptrdiff_t>(s) * table_stride);
    state_blocks.insert(state_blocks.end(), sequence.state.begin(), sequence.state.end());
    state_stride = static_cast<int64_t>(sequence.state.size());
    const bool is_held = member.num_drafts > 0 && state_stride > 0;
    if (is_held) held_rows.resize(s);
    if (is_held || !held_rows.empty()) held_rows.push_back(is_held ? member.count : 0);
    if (sequence.adapter > 0) adapters.resize(token_ids.size() - static_cast<size_t>(member.count));
    if (sequence.adapter > 0 || !adapters.empty()) adapters.resize(token_ids.size(), sequence.adapter);
    for (int row = member.num_rows(); row > 0; --row) draw_rows.push_back(static_cast<int32_t>(token_ids.size()) - row);
  }
}

void StepInputs::BuildSlice(const SequenceTable& table, SlotId slot, int row, int count, int block_size) {
  Build(table, {{slot, row, count, false}}, block_size);
  context_len.front() = static_cast<int32_t>(table.at(slot).tokens.size());
}

}  // namespace quire
