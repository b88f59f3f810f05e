#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/matmul.h"
#include "worker/cpu/kv_cache.h"
#include "worker/cpu/step_inputs.h"
#include "worker/cpu/weights.h"
#include "worker/engine/engine_sizes.h"
#include "worker/engine/sequence_table.h"

namespace quire {

/// What guesses, on rank 0 alone, which tokens follow a sequence: a draft model or a prediction layer of the served
/// model. Its keys and values are in the blocks of the served model, in a part of each block behind the served model's
/// own part. The part also says which of the block's tokens the guesser has read. Copies of whole blocks contain both
/// parts. Wrong or missing numbers worsen guesses and change no answer.
class Guesser {
 public:
  /// Where the guesser's numbers lie in the blocks, whose first bytes belong to the served model.
  struct Places {
    int64_t own_bytes = 0;    // bytes of a block that belong to the served model
    int64_t part_at = 0;      // offset in bytes of the guesser's part in a block
    int64_t block_bytes = 0;  // bytes of a block, both parts together; own_bytes without a guesser
    int spare_blocks = 0;     // number of blocks behind the pool's blocks, for guessed tokens

    /// Returns the bytes of the blocks that a state of `bytes` bytes needs, or fewer: the guesser's part of a block
    /// holds nothing of a state.
    int64_t StateBytes(int64_t bytes) const {
      return block_bytes == own_bytes ? bytes : (bytes + own_bytes - 1) / own_bytes * block_bytes;
    }
  };
  /// The rows that a step has computed. `rows`: of each member of the batch, how many of its tokens remain, from its
  /// first token on. `hidden` [tokens of the batch, hidden]: the served model's last hidden states, normed.
  struct Computed {
    const std::vector<BatchMember>& batch;
    std::span<const int32_t> rows;
    const StepInputs& inputs;
    std::span<const float> hidden;
  };

  virtual ~Guesser() = default;

  virtual int64_t weight_bytes() const = 0;
  /// Returns a sentence for the log that names the guesser, without its end.
  virtual std::string Name() const = 0;
  /// Sets the memory: num_blocks blocks, then the spare blocks.
  virtual void UsePool(std::byte* pool, const Places& places, int num_blocks) = 0;
  /// Marks the batch's tokens as not read. Called before the served model computes the batch.
  virtual void Overwrite(const std::vector<BatchMember>& batch, const SequenceTable& table) = 0;
  /// True when the guesser reads what each step has computed (Read).
  virtual bool reads_steps() const { return false; }
  /// Called after the served model has computed the batch, whose draws are verified and not yet in the table.
  virtual void Read(const Computed&, const SequenceTable&) {}
  /// Guesses the tokens that follow the known tokens of each ordered sequence. Returns no guess for an order where the
  /// guesser has not read enough of the sequence, or the sequence is too long for it.
  virtual std::vector<Draft> Guess(const std::vector<GuessOrder>& orders, const SequenceTable& table) = 0;

  /// Marks the block, which need not be in the pool, as unread. Called before other bytes are copied into it.
  static void Void(std::byte* block, const Places& places);
};

/// Makes the guesser of `sizes.draft.files`. `head`: the served model's output head, where this rank has all of it;
/// null: the rank has a part. The stream and the head must outlive the guesser.
std::unique_ptr<Guesser> MakeGuesser(const EngineSizes& sizes, const kernels::CpuStream& stream, const Matrices* head);
/// Returns the places of this guesser, behind own_bytes bytes of the served model in each block. Without a guesser the
/// model has the whole block.
Guesser::Places GuesserPlaces(const EngineSizes& sizes, int64_t own_bytes);
/// Returns the guesser's weight_bytes without reading a matrix. `has_head` is true where MakeGuesser gets a head.
int64_t GuesserWeightBytes(const EngineSizes& sizes, bool has_head);

/// The first bytes of the guesser's part of a block.
struct GuesserBlock {
  int32_t num_read;  // number of leading tokens of the block that the guesser has read
  int32_t kept;      // with prediction layers: 1 + offset of the token whose hidden state is kept; 0: none is
};
inline constexpr int64_t kGuesserHeadBytes = 64;  // bytes before the numbers in a block's part
/// Parts of a block begin at multiples of 64 bytes.
inline int64_t RoundUpInBlock(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Returns the shape of the guesser's keys and values.
KvShape GuesserShape(const EngineSizes& sizes);
/// Returns the shard of the whole guesser.
RankShard GuesserShard(const EngineSizes& sizes);
/// Returns how many spare blocks the guesser needs for one sequence: for the block of the last known token, and for all
/// guessed tokens but the last. In the worst case the last known token is the last token of its block.
int GuesserSpareBlocks(const EngineSizes& sizes);
/// Returns for how many sequences one call guesses.
int MostGuessedSequences(const EngineSizes& sizes);
/// Returns the first of the likeliest tokens among the first num_tokens.
TokenId LikeliestToken(std::span<const float> logits, int64_t num_tokens);

}  // namespace quire
