#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/collective/lone_collective.h"
#include "worker/cpu/cpu_decoder.h"
#include "worker/cpu/guesser.h"
#include "worker/cpu/kv_cache.h"

namespace quire {

/// The prediction layer (ModelSpec::predicts) of the served model, whole on rank 0. After each step it computes its
/// keys and values for the tokens that remain after verification. The row at a position needs the token at this
/// position and the served model's hidden state at the position before. So the layer's part of each block also stores
/// one hidden state: that of the last computed token of the block. This part depends only on the tokens up to the
/// block's last token, like the served model's keys and values. So it may be shared, copied and swapped with the block.
/// A block whose tokens this rank did not compute, because the block came from another worker or from a disk, has no
/// hidden states and gets no rows of this layer. Rows of later blocks attend only to rows behind such a block.
class PredictionStack final : public Guesser {
 public:
  static constexpr int kRowsAtOnce = 128;  // tokens that one pass reads
  /// `sizes.draft` names the layer's files. `head`: see MakeGuesser.
  PredictionStack(const EngineSizes& sizes, const kernels::CpuStream& stream, const Matrices* head);

  /// Returns the bytes in a block that a stored hidden state takes.
  static int64_t HiddenBytes(const ModelSpec& spec) {
    return RoundUpInBlock(spec.hidden_size * static_cast<int64_t>(sizeof(float)));
  }

  int64_t weight_bytes() const override { return decoder_.weights().bytes(); }
  std::string Name() const override;
  bool reads_steps() const override { return true; }
  void Read(const Computed& computed, const SequenceTable& table) override;
  std::vector<Draft> Guess(const std::vector<GuessOrder>& orders, const SequenceTable& table) override;

 private:
  /// A row of a pass: the token at a position, and the hidden state at the position before.
  struct Row {
    TokenId token;
    int position;
    const float* hidden;
  };
  /// A sequence for which a draft is ordered.
  struct Lane {
    Draft draft;
    int count;                  // number of tokens to draft
    int position;               // position of the next row: first that of the last known token
    TokenId token;              // the token there
    std::vector<float> hidden;  // the hidden state before it
    int first_block;            // block of the sequence with which the context begins
    std::vector<int> blocks;    // the block table from there on; spare blocks behind the computed tokens' blocks
  };
  /// Records which blocks of a sequence have all their rows.
  struct Reader {
    uint64_t serial = 0;
    int checked = 0;      // leading blocks that are complete, or will never be
    int first_whole = 0;  // from this one on, the checked blocks have all their rows
  };

  void Read(const BatchMember& member, int rows, const Computed& computed, int64_t first_row,
            const SequenceTable& table);
  int FirstReadable(const BatchMember& member, int end, const SequenceState& sequence);
  void Keep(const SequenceState& sequence, int start, int end, const float* hidden);
  bool Prepare(const GuessOrder& order, const SequenceTable& table, Lane& lane);
  int FirstBlock(SlotId slot, const SequenceState& sequence, int block);
  const float* HiddenAt(const SequenceState& sequence, int position);
  void BeginPass();
  void Enter(const Row& row, int block);
  void EndSequence(std::span<const int> blocks, int first_block, int end);
  std::span<const float> Pass();
  float* KeptIn(int block) const { return reinterpret_cast<float*>(PartOf(block) + kGuesserHeadBytes); }

  LoneCollective alone_;
  CpuDecoder decoder_;
  int64_t hidden_size_;
  StepInputs inputs_;
  std::vector<std::vector<int>> tables_;  // the block table of each sequence of the pass
  std::vector<Lane> lanes_;
  std::map<SlotId, Reader> readers_;
};

}  // namespace quire
