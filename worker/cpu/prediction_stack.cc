#include "worker/cpu/prediction_stack.h"

#include <algorithm>

#include "comm/base/error.h"

namespace quire {

namespace {

/// Returns the sizes for the prediction layer's own passes.
EngineSizes LayerPassSizes(EngineSizes sizes) {
  sizes.max_step_tokens = PredictionStack::kRowsAtOnce;
  sizes.draft_rows = 0;
  return sizes;
}

}  // namespace

PredictionStack::PredictionStack(const EngineSizes& sizes, const kernels::CpuStream& stream, const Matrices* head)
    : Guesser(sizes),
      decoder_(*sizes.draft.files, GuesserShard(sizes), stream, CpuPeers{alone_}, LayerPassSizes(sizes), head),
      hidden_size_(sizes.draft.files->spec().hidden_size) {}

std::string PredictionStack::Name() const { return "the layer that predicts further tokens"; }

void PredictionStack::Read(const Computed& computed, const SequenceTable& table) {
  BeginPass();
  int64_t row = 0;
  for (size_t i = 0; i < computed.batch.size(); ++i) {
    Read(computed.batch[i], computed.rows[i], computed, row, table);
    row += computed.batch[i].count;
  }
  Pass();
}

/// Adds to the pass the member's rows whose tokens remain after verification, from FirstReadable on. Computes the pass
/// whenever it is full. Also stores the hidden states that rows of later steps need. `first_row`: the member's first
/// row in the step.
void PredictionStack::Read(const BatchMember& member, int rows, const Computed& computed, int64_t first_row,
                           const SequenceTable& table) {
  const SequenceState& s = table.at(member.slot);
  const int size = block_size(), end = member.start + rows;
  const float* const hidden = computed.hidden.data() + first_row * hidden_size_;
  int position = FirstReadable(member, end, s);
  const int first_block = position < end ? FirstBlock(member.slot, s, position / size) : 0;
  while (position < end) {
    if (inputs_.num_tokens() == kRowsAtOnce) {
      Pass();
      BeginPass();
    }
    const int past = std::min(end, position + kRowsAtOnce - static_cast<int>(inputs_.num_tokens()));
    for (int at = position; at < past; ++at) {
      const int block = s.blocks[static_cast<size_t>(at / size)], before = at - 1 - member.start;
      const TokenId token = computed.inputs.token_ids[static_cast<size_t>(first_row + at - member.start)];
      Enter({token, at, before < 0 ? HiddenAt(s, at - 1) : hidden + before * hidden_size_}, block);
      HeadOf(block).num_read = at % size + 1;
    }
    const auto first = static_cast<size_t>(first_block), count = static_cast<size_t>((past - 1) / size + 1) - first;
    EndSequence(std::span(s.blocks).subspan(first, count), first_block, past);
    position = past;
  }
  Keep(s, member.start, end, hidden);
}

/// Returns the member's first position from which the rows of all positions up to `end` can be computed. Returns `end`
/// or a later position when there is none. The member's blocks before that position get no further rows.
int PredictionStack::FirstReadable(const BatchMember& member, int end, const SequenceState& sequence) {
  const int size = block_size();
  int position = member.start;
  if (position == 0) {
    HeadOf(sequence.blocks[0]).num_read = 1;  // there is no row at position 0
    position = 1;
  }
  while (position < end) {
    const bool goes_on = HeadOf(sequence.blocks[static_cast<size_t>(position / size)]).num_read == position % size;
    if (goes_on && (position > member.start || HiddenAt(sequence, position - 1) != nullptr)) break;
    position = (position / size + 1) * size;
  }
  return position;
}

/// Stores, in each block that has tokens of positions [start, end), the hidden state of the last of these tokens.
/// `hidden` begins with the hidden state of position `start`.
void PredictionStack::Keep(const SequenceState& sequence, int start, int end, const float* hidden) {
  const int size = block_size();
  for (int index = start / size; index * size < end; ++index) {
    const int last = std::min(end, (index + 1) * size) - 1;
    const BlockId block = sequence.blocks[static_cast<size_t>(index)];
    std::copy_n(hidden + (last - start) * hidden_size_, hidden_size_, KeptIn(block));
    HeadOf(block).kept = last % size + 1;
  }
}

/// Returns the hidden state that is stored for the sequence's position; null if none is stored.
const float* PredictionStack::HiddenAt(const SequenceState& sequence, int position) {
  const BlockId block = sequence.blocks[static_cast<size_t>(position / block_size())];
  return HeadOf(block).kept == position % block_size() + 1 ? KeptIn(block) : nullptr;
}

/// Returns the index of the first block to which a row in the sequence's block number `block` may attend: all blocks
/// from this index up to the one before `block` have all their rows.
int PredictionStack::FirstBlock(SlotId slot, const SequenceState& sequence, int block) {
  Reader& reader = readers_[slot];
  if (reader.serial != sequence.serial || reader.checked > block) reader = {sequence.serial, 0, 0};
  for (; reader.checked < block; ++reader.checked) {
    const int read = HeadOf(sequence.blocks[static_cast<size_t>(reader.checked)]).num_read;
    if (read < block_size()) reader.first_whole = reader.checked + 1;
  }
  return reader.first_whole;
}

std::vector<Draft> PredictionStack::Guess(const std::vector<GuessOrder>& orders, const SequenceTable& table) {
  lanes_.clear();
  for (const GuessOrder& order : orders) {
    Lane lane{};
    if (std::ssize(lanes_) < MostGuessedSequences(sizes()) && Prepare(order, table, lane))
      lanes_.push_back(std::move(lane));
  }
  for (;;) {
    BeginPass();
    std::vector<Lane*> guessing;
    for (Lane& lane : lanes_) {
      if (std::ssize(lane.draft.tokens) == lane.count) continue;
      guessing.push_back(&lane);
      const int block = lane.blocks[static_cast<size_t>(lane.position / block_size() - lane.first_block)];
      Enter({lane.token, lane.position, lane.hidden.data()}, block);
      inputs_.draw_rows.push_back(static_cast<int32_t>(inputs_.num_tokens()) - 1);
      EndSequence(lane.blocks, lane.first_block, lane.position + 1);
    }
    if (guessing.empty()) break;
    const std::span<const float> logits = Pass();
    const size_t width = logits.size() / guessing.size();
    for (size_t row = 0; row < guessing.size(); ++row) {
      Lane& lane = *guessing[row];
      lane.token = LikeliestToken(logits.subspan(row * width, width), static_cast<int64_t>(width));
      lane.draft.tokens.push_back(lane.token);
      ++lane.position;
      std::ranges::copy(decoder_.NormedRows(static_cast<int64_t>(row), 1), lane.hidden.begin());
    }
  }
  std::vector<Draft> drafts;
  for (Lane& lane : lanes_) drafts.push_back(std::move(lane.draft));
  return drafts;
}

/// Prepares the lane of an order, which is one sequence of the pass. Returns false when the last known token's row
/// cannot be computed.
bool PredictionStack::Prepare(const GuessOrder& order, const SequenceTable& table, Lane& lane) {
  const SequenceState& s = table.at(order.slot);
  const int size = block_size(), position = static_cast<int>(s.tokens.size()) - 1;
  const int tail = position / size, before = position % size;
  if (position < 1 || s.num_computed != position || position + order.count > sizes().max_model_len) return false;
  if (before > 0 && HeadOf(s.blocks[static_cast<size_t>(tail)]).num_read != before) return false;
  const float* const hidden = HiddenAt(s, position - 1);
  if (hidden == nullptr || s.tokens.back() < 0) return false;
  lane = {{order.slot, {}}, order.count, position, s.tokens.back(), {hidden, hidden + hidden_size_}, 0, {}};
  lane.first_block = FirstBlock(order.slot, s, tail);
  // The last step computed the token before the sequence's last token, so the sequence shares its last block with no
  // other sequence. The bytes behind the computed tokens of that block are not used yet, and the pass may write there.
  const int own = tail + (before > 0 ? 1 : 0);
  lane.blocks.assign(s.blocks.begin() + lane.first_block, s.blocks.begin() + own);
  AppendSpareBlocks(lanes_.size(), lane.blocks);
  return true;
}

void PredictionStack::BeginPass() {
  inputs_.Clear();
  tables_.clear();
}

/// Adds a row to the pass. The row's keys and values go into the block.
void PredictionStack::Enter(const Row& row, int block) {
  inputs_.token_ids.push_back(row.token);
  inputs_.positions.push_back(row.position);
  inputs_.token_types.push_back(0);
  inputs_.slots.push_back(int64_t{block} * block_size() + row.position % block_size());
  inputs_.hidden.insert(inputs_.hidden.end(), row.hidden, row.hidden + hidden_size_);
}

/// Completes the inputs of the pass for one sequence. Its rows were entered before. `blocks`: its blocks from
/// first_block on; `end`: the position after its last row.
void PredictionStack::EndSequence(std::span<const int> blocks, int first_block, int end) {
  inputs_.query_start.push_back(static_cast<int32_t>(inputs_.num_tokens()));
  inputs_.context_len.push_back(end - first_block * block_size());
  inputs_.context_begin.push_back(first_block == 0 ? 1 : 0);
  tables_.emplace_back(blocks.begin(), blocks.end());
  inputs_.table_stride = std::max(inputs_.table_stride, static_cast<int64_t>(blocks.size()));
}

/// Computes the rows that were entered. Returns the logits of the rows in draw_rows.
std::span<const float> PredictionStack::Pass() {
  if (inputs_.num_tokens() == 0) return {};
  const auto stride = static_cast<size_t>(inputs_.table_stride);
  inputs_.block_tables.assign(tables_.size() * stride, kNullBlock);
  for (size_t s = 0; s < tables_.size(); ++s)
    std::ranges::copy(tables_[s], inputs_.block_tables.begin() + static_cast<ptrdiff_t>(s * stride));
  decoder_.Forward(inputs_, cache());
  return decoder_.LogitsOfDraws(0, std::ssize(inputs_.draw_rows));
}

}  // namespace quire
