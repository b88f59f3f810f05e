#include "worker/cpu/draft_stack.h"

#include <algorithm>
#include <chrono>

#include "comm/base/error.h"

namespace quire {

namespace {

// Bounds on the passes and on the time of one call, for tokens that the draft model has not read yet.
constexpr int kMostPasses = DraftStack::kMostRows / DraftStack::kRowsAtOnce;
constexpr auto kReading = std::chrono::milliseconds(100);

/// Returns the sizes for the draft model's own passes.
EngineSizes PassSizes(EngineSizes sizes) {
  sizes.max_step_tokens = DraftStack::kRowsAtOnce;
  sizes.max_model_len = sizes.draft.max_model_len;
  return sizes;
}

}  // namespace

DraftStack::DraftStack(const EngineSizes& sizes, const kernels::CpuStream& stream)
    : Guesser(sizes),
      decoder_(*sizes.draft.files, GuesserShard(sizes), stream, CpuPeers{alone_}, PassSizes(sizes)),
      num_tokens_(std::min(sizes.draft.files->spec().vocab_size, sizes.draft.vocab_size)) {}

std::string DraftStack::Name() const { return fmt::format("the draft model {}", sizes().draft.files->path()); }

std::vector<Draft> DraftStack::Guess(const std::vector<GuessOrder>& orders, const SequenceTable& table) {
  const auto end_of_reading = std::chrono::steady_clock::now() + kReading;
  for (int pass = 1; !Collect(orders, table) && pass < kMostPasses; ++pass) {
    if (std::chrono::steady_clock::now() >= end_of_reading) break;
    for (Lane& lane : lanes_) lane.guesses = false;  // this pass only reads; all lanes draft together afterwards
    Read();
  }
  if (lanes_.empty()) return {};
  Read();
  for (;;) {
    BeginPass();
    for (const Lane& lane : lanes_) {
      const auto guessed = static_cast<int>(lane.draft.tokens.size());
      if (guessed > 0 && guessed < lane.count) Enter(lane, lane.end + guessed - 1, lane.end + guessed);
    }
    if (inputs_.num_tokens() == 0) break;
    Pass();
  }
  std::vector<Draft> drafts;
  for (Lane& lane : lanes_) {
    if (!lane.draft.tokens.empty()) drafts.push_back(std::move(lane.draft));
  }
  return drafts;
}

/// Chooses the sequences of the next pass, and adds a Lane for each of these sequences. Returns false when one pass
/// cannot read all the tokens that the orders need.
bool DraftStack::Collect(const std::vector<GuessOrder>& orders, const SequenceTable& table) {
  lanes_.clear();
  writing_.clear();
  bool whole = true;
  int room = kRowsAtOnce;
  for (const GuessOrder& order : orders) {
    if (std::ssize(lanes_) == MostGuessedSequences(sizes())) break;
    if (!MayGuess(order, table.at(order.slot))) continue;
    Lane lane{};
    if (room == 0 || !Prepare(order, table, room, lane)) {
      whole = false;
      continue;
    }
    whole = whole && lane.guesses;
    room -= lane.end - lane.begin;
    lanes_.push_back(std::move(lane));
  }
  return whole;
}

/// Runs the draft model over the tokens from `begin` to `end` of each lane (one sequence of the pass). A lane whose
/// range includes the sequence's last token gets its first draft token.
void DraftStack::Read() {
  BeginTails();
  BeginPass();
  for (const Lane& lane : lanes_) Enter(lane, lane.begin, lane.end);
  Pass();
  EndTails();
}

/// True when the draft model can make a draft for the sequence after reading it.
bool DraftStack::MayGuess(const GuessOrder& order, const SequenceState& s) const {
  const auto known = static_cast<int>(s.tokens.size());
  const auto unknown = [this](TokenId token) { return token < 0 || token >= num_tokens_; };
  return known + order.count - 1 <= sizes().draft.max_model_len && s.num_computed == known - 1 &&
         std::ranges::none_of(s.tokens, unknown) && std::ranges::find(s.blocks, kNullBlock) == s.blocks.end();
}

/// Returns the first position of the sequence whose keys and values the draft model lacks, but at most the last token's
/// position.
int DraftStack::FirstUnread(SlotId slot, const SequenceState& sequence, int tail) {
  Reader& reader = readers_[slot];
  if (reader.serial != sequence.serial) reader = {sequence.serial, 0};
  const int size = block_size();
  while (reader.blocks < tail && HeadOf(sequence.blocks[static_cast<size_t>(reader.blocks)]).num_read >= size)
    ++reader.blocks;
  const auto index = static_cast<size_t>(reader.blocks);
  if (index >= sequence.blocks.size()) return reader.blocks * size;
  return std::min(reader.blocks * size + HeadOf(sequence.blocks[index]).num_read,
                  static_cast<int>(sequence.tokens.size()) - 1);
}

/// Sets `lane` to the sequence of the order, and to at most `room` of the next tokens that the draft model must read.
/// Returns false when another sequence of the pass already writes a block of these tokens that both sequences share.
bool DraftStack::Prepare(const GuessOrder& order, const SequenceTable& table, int room, Lane& lane) {
  const SequenceState& s = table.at(order.slot);
  const int size = block_size(), known = static_cast<int>(s.tokens.size());
  lane.sequence = &s;
  lane.draft.slot = order.slot;
  lane.count = order.count;
  lane.tail = (known - 1) / size;
  lane.begin = FirstUnread(order.slot, s, lane.tail);
  lane.end = std::min(known, lane.begin + room);
  lane.guesses = lane.end == known;
  const auto full = std::span(s.blocks).first(std::min(s.blocks.size(), static_cast<size_t>(lane.tail)));
  const int first = lane.begin / size, last = std::min(lane.tail, (lane.end - 1) / size + 1);
  const auto written = full.subspan(static_cast<size_t>(first), static_cast<size_t>(std::max(0, last - first)));
  if (std::ranges::find_first_of(written, writing_) != written.end()) return false;
  writing_.insert(writing_.end(), written.begin(), written.end());
  lane.blocks.assign(full.begin(), full.end());
  AppendSpareBlocks(lanes_.size(), lane.blocks);
  return true;
}

/// Several sequences may share the block of their last computed tokens, so each lane (one sequence of the pass) writes
/// into a copy of that block.
void DraftStack::BeginTails() {
  for (const Lane& lane : lanes_) {
    const auto tail = static_cast<size_t>(lane.tail);
    if (tail < lane.sequence->blocks.size()) CopyPart(lane.sequence->blocks[tail], lane.blocks[tail]);
  }
}

/// Records the tokens that the first pass has read. Copies the computed tokens of each sequence's last block from the
/// lane's copy back into that block. Later tokens in the block are not recorded.
void DraftStack::EndTails() {
  const int size = block_size();
  for (const Lane& lane : lanes_) {
    const auto tail = static_cast<size_t>(lane.tail);
    for (int index = lane.begin / size; index < lane.tail && index * size < lane.end; ++index)
      HeadOf(lane.sequence->blocks[static_cast<size_t>(index)]).num_read = std::min(size, lane.end - index * size);
    const int computed = std::min(lane.end, lane.sequence->num_computed) - lane.tail * size;
    if (computed <= 0 || tail >= lane.sequence->blocks.size()) continue;
    CopyPart(lane.blocks[tail], lane.sequence->blocks[tail]);
    HeadOf(lane.sequence->blocks[tail]).num_read = computed;
  }
}

void DraftStack::BeginPass() {
  inputs_.Clear();
  for (const Lane& lane : lanes_)
    inputs_.table_stride = std::max(inputs_.table_stride, static_cast<int64_t>(lane.blocks.size()));
}

/// Adds positions [begin, end) of the lane's sequence to the inputs of a pass.
void DraftStack::Enter(const Lane& lane, int begin, int end) {
  const std::vector<TokenId>& tokens = lane.sequence->tokens;
  for (int position = begin; position < end; ++position) {
    const auto at = static_cast<size_t>(position);
    const int block = lane.blocks[static_cast<size_t>(position / block_size())];
    inputs_.token_ids.push_back(at < tokens.size() ? tokens[at] : lane.draft.tokens[at - tokens.size()]);
    inputs_.positions.push_back(position);
    inputs_.token_types.push_back(0);
    inputs_.slots.push_back(int64_t{block} * block_size() + position % block_size());
  }
  inputs_.query_start.push_back(static_cast<int32_t>(inputs_.token_ids.size()));
  inputs_.context_len.push_back(end);
  if (lane.guesses) inputs_.draw_rows.push_back(static_cast<int32_t>(inputs_.token_ids.size()) - 1);
  const auto stride = static_cast<size_t>(inputs_.table_stride);
  inputs_.block_tables.insert(inputs_.block_tables.end(), lane.blocks.begin(), lane.blocks.end());
  inputs_.block_tables.resize(inputs_.context_len.size() * stride, kNullBlock);
}

/// Computes the inputs of the pass. Each lane (one sequence of the pass) whose inputs reach its last token gets the
/// likeliest next token.
void DraftStack::Pass() {
  decoder_.Forward(inputs_, cache());
  const size_t rows = inputs_.draw_rows.size();
  const std::span<const float> logits = decoder_.LogitsOfDraws(0, static_cast<int64_t>(rows));
  const size_t width = rows == 0 ? 0 : logits.size() / rows;
  size_t row = 0;
  for (Lane& lane : lanes_) {
    if (!lane.guesses || std::ssize(lane.draft.tokens) == lane.count) continue;
    lane.draft.tokens.push_back(LikeliestToken(logits.subspan(row++ * width, width), num_tokens_));
  }
  QUIRE_CHECK(row == rows, "{} guesses for {} rows", row, rows);
}

}  // namespace quire
