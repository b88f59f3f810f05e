#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/matmul.h"
#include "worker/cpu/guesser_sizes.h"
#include "worker/cpu/step_inputs.h"
#include "worker/cpu/weights.h"
#include "worker/engine/sequence_table.h"

namespace quire {

/// The draft maker of a worker group, on rank 0 alone: a draft model, or a prediction layer of the served model. The
/// guesser's keys and values are in the blocks of the served model, in a part of each block behind the served model's
/// own part. The part also says which of the block's tokens the guesser has read. Copies of whole blocks contain both
/// parts. Wrong or missing numbers make drafts worse and change no answer.
class Guesser {
 public:
  /// The layout of a block: the served model's bytes come first, then the guesser's part.
  struct Places {
    int64_t own_bytes = 0;    // bytes of a block that belong to the served model
    int64_t part_at = 0;      // offset in bytes of the guesser's part in a block
    int64_t keys_at = 0;      // offset in bytes of the guesser's keys and values in a block
    int64_t block_bytes = 0;  // bytes of a block, both parts together; own_bytes without a guesser
    int spare_blocks = 0;     // number of blocks behind the pool's blocks, for draft tokens

    /// Returns the bytes of the whole blocks that a state of `bytes` bytes occupies. A state uses only the first
    /// own_bytes of each block. Without a guesser, returns `bytes` itself.
    int64_t StateBytes(int64_t bytes) const {
      return block_bytes == own_bytes ? bytes : (bytes + own_bytes - 1) / own_bytes * block_bytes;
    }
  };
  /// The rows that a step has computed. `rows`: for each member of the batch, the number of its leading tokens that
  /// remain after verification. `hidden` [tokens of the batch, hidden]: the served model's last hidden states, normed.
  struct Computed {
    const std::vector<BatchMember>& batch;
    std::span<const int32_t> rows;
    const StepInputs& inputs;
    std::span<const float> hidden;
  };

  /// `sizes.draft` names the guesser's files.
  explicit Guesser(const EngineSizes& sizes);
  virtual ~Guesser() = default;

  virtual int64_t weight_bytes() const = 0;
  /// Returns the name of the guesser for a sentence of the log, for example "the draft model PATH".
  virtual std::string Name() const = 0;
  /// Sets the guesser's memory: `pool` has num_blocks blocks, then the spare blocks.
  void UsePool(std::byte* pool, const Places& places, int num_blocks);
  /// Marks the batch's tokens as not read. Called before the served model computes the batch.
  void Overwrite(const std::vector<BatchMember>& batch, const SequenceTable& table);
  /// True when the guesser reads what each step has computed (Read).
  virtual bool reads_steps() const { return false; }
  /// Reads what a step of the served model has computed. The step's tokens are verified but not yet in the table.
  virtual void Read(const Computed&, const SequenceTable&) {}
  /// Returns drafts: the tokens that may follow the tokens of each ordered sequence. Returns no draft for some orders,
  /// for example where the guesser has not read enough of the sequence, or the sequence is too long for it.
  virtual std::vector<Draft> Guess(const std::vector<GuessOrder>& orders, const SequenceTable& table) = 0;

  /// Marks the block, which need not be in the pool, as unread. Called before other bytes are copied into the block.
  static void Void(std::byte* block, const Places& places);

 protected:
  const EngineSizes& sizes() const { return sizes_; }
  int block_size() const { return sizes_.block_size; }
  KvCache& cache() { return *cache_; }
  /// Returns the guesser's part of the block; CopyPart copies a whole part.
  std::byte* PartOf(int block) const { return pool_ + block * places_.block_bytes + places_.part_at; }
  GuesserBlock& HeadOf(int block) { return *reinterpret_cast<GuesserBlock*>(PartOf(block)); }
  void CopyPart(int from, int to);
  /// Appends to `blocks` the spare blocks of sequence `number` (from 0) among those for which this call makes drafts.
  void AppendSpareBlocks(size_t number, std::vector<int>& blocks) const;

 private:
  const EngineSizes sizes_;
  Places places_;
  std::byte* pool_ = nullptr;
  int num_blocks_ = 0;
  std::unique_ptr<KvCache> cache_;
};

/// Makes the guesser of `sizes.draft.files`. `head`: the served model's output head, where this rank has all of it;
/// null: the rank has a part. The stream and the head must outlive the guesser.
std::unique_ptr<Guesser> MakeGuesser(const EngineSizes& sizes, const kernels::CpuStream& stream, const Matrices* head);
/// Returns the places of this guesser, behind own_bytes bytes of the served model in each block. Without a guesser the
/// model has the whole block.
Guesser::Places GuesserPlaces(const EngineSizes& sizes, int64_t own_bytes);
/// Returns the guesser's weight_bytes without reading a matrix. `has_head` is true where MakeGuesser gets a head.
int64_t GuesserWeightBytes(const EngineSizes& sizes, bool has_head);

/// Returns the likeliest of the first num_tokens tokens; if several are equally likely, the first of them.
TokenId LikeliestToken(std::span<const float> logits, int64_t num_tokens);

}  // namespace quire
