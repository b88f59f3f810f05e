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
#include "worker/engine/engine_sizes.h"
#include "worker/engine/sequence_table.h"

namespace quire {

/// The draft model of rank 0: a whole, smaller model that predicts which tokens follow a sequence. It runs only when a
/// draft is ordered. It then first reads the sequence's tokens that it has not read yet, at most kMostRows in one call.
class DraftStack final : public Guesser {
 public:
  /// The most tokens, of all sequences together, that one call of Guess reads before it makes drafts. A call reads
  /// fewer tokens if they take long.
  static constexpr int kMostRows = 256;
  static constexpr int kRowsAtOnce = 64;  // tokens that one pass reads
  /// `sizes.draft` names the model's files. The stream must outlive the object.
  DraftStack(const EngineSizes& sizes, const kernels::CpuStream& stream);

  int64_t weight_bytes() const override { return decoder_.weights().bytes(); }
  std::string Name() const override;
  /// Returns no draft for an order in these cases: the draft model must first read too many tokens, or its vocabulary
  /// lacks one of them; the sequence is too long for it; the sequence's first blocks have left the sliding window.
  std::vector<Draft> Guess(const std::vector<GuessOrder>& orders, const SequenceTable& table) override;

 private:
  /// A sequence of a pass. A draft for this sequence is ordered.
  struct Lane {
    const SequenceState* sequence;
    Draft draft;
    int count;                // number of tokens to draft
    int begin, end;           // positions that the first pass computes; the last one gives the first draft token
    int tail;                 // index of the block of the sequence's last token; it and later blocks are spare blocks
    bool guesses = true;      // false: the first pass does not reach the last known token
    std::vector<int> blocks;  // the block table for the draft model
  };
  /// Records how far the draft model has read a sequence.
  struct Reader {
    uint64_t serial = 0;
    int blocks = 0;  // leading blocks of which it has read all tokens
  };

  bool Collect(const std::vector<GuessOrder>& orders, const SequenceTable& table);
  void Read();
  bool MayGuess(const GuessOrder& order, const SequenceState& sequence) const;
  bool Prepare(const GuessOrder& order, const SequenceTable& table, int room, Lane& lane);
  int FirstUnread(SlotId slot, const SequenceState& sequence, int tail);
  void BeginTails();
  void EndTails();
  void BeginPass();
  void Enter(const Lane& lane, int begin, int end);
  void Pass();

  LoneCollective alone_;
  CpuDecoder decoder_;
  int64_t num_tokens_;  // number of token ids that both models have
  StepInputs inputs_;
  std::vector<Lane> lanes_;
  std::vector<int> writing_;  // blocks of the pool that a lane of this call writes
  std::map<SlotId, Reader> readers_;
};

}  // namespace quire
