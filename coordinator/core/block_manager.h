#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "coordinator/core/block_pool.h"
#include "coordinator/core/prefix_cache.h"
#include "coordinator/core/sequence.h"

namespace quire {

struct BlockManagerOptions {
  int num_blocks = 0;       // on the device, the null block counted in
  int block_size = 16;      // tokens
  int num_host_blocks = 0;  // for swapped-out sequences
  double watermark = 0.01;  // share of the device blocks that admission leaves free, so that running requests can grow
  bool prefix_caching = true;
  int sliding_window = 0;  // tokens a query sees, itself counted in; 0: all
  PrefixCache::Key hash_key{};
  int hash_bits = 128;
};

/// How many blocks there are, as in BlockManagerOptions.
struct PoolSizes {
  int num_blocks = 0, num_host_blocks = 0;
  bool operator==(const PoolSizes&) const = default;
};

/// A sequence and the number of tokens its blocks must hold.
struct GrowTarget {
  Sequence* sequence;
  int num_tokens;
};

/// The block-space manager: gives blocks to sequences and takes them back; the only one that touches the pools.
/// A block that several sequences share is never written: the writer gets a copy first (copy-on-write), and the last
/// owner writes in place. What has to be copied or told is appended to the plan that is being made.
class BlockManager {
 public:
  explicit BlockManager(const BlockManagerOptions& options);
  BlockManager(const BlockManager&) = delete;
  BlockManager& operator=(const BlockManager&) = delete;

  /// Other numbers of blocks from now on. Nothing may be held or cached, on device or host.
  void Resize(const PoolSizes& sizes);
  PoolSizes sizes() const { return {options_.num_blocks, options_.num_host_blocks}; }

  int block_size() const { return options_.block_size; }
  int sliding_window() const { return options_.sliding_window; }
  bool prefix_caching() const { return options_.prefix_caching; }
  int num_free() const { return pool_.num_free(); }
  int num_usable() const { return pool_.num_usable(); }
  int watermark_blocks() const { return watermark_blocks_; }
  int BlocksFor(int64_t num_tokens) const {
    return static_cast<int>((num_tokens + options_.block_size - 1) / options_.block_size);
  }
  const BlockPool& pool() const { return pool_; }
  const BlockPool& host_pool() const { return host_pool_; }
  const PrefixCache& cache() const { return cache_; }
  /// Computed tokens in the block.
  int filled(BlockId block) const { return uses_[static_cast<size_t>(block)].filled; }
  /// Steps since the block was given its present content.
  int64_t age(BlockId block) const { return now_ - uses_[static_cast<size_t>(block)].since; }
  /// The number of the step that is made now.
  void SetTime(int64_t step) { now_ = step; }

  // --- growing and ending ---

  /// Blocks that growing all the targets takes, copies included. The targets are sequences of one request.
  int BlocksToGrow(std::span<const GrowTarget> targets);
  /// Makes the table cover num_tokens and the positions from num_planned() on writable, and tells the workers if they
  /// know the sequence. The pool must have the blocks.
  void Grow(Sequence& sequence, int num_tokens, StepPlan& plan);
  /// `count` more tokens were computed and all up to there are known: full blocks become findable.
  void Computed(Sequence& sequence, int count);
  /// `child` gets the blocks that hold `parent`'s computed tokens, shared, and its num_computed. `child` has no blocks.
  void Fork(const Sequence& parent, Sequence& child);
  /// Gives all blocks back, on device and host, the last one first, and sets num_computed to 0.
  void Free(Sequence& sequence);
  /// Gives back the blocks that no query sees which is not in a step's result yet.
  void LeaveWindow(Sequence& sequence);

  // --- prefix cache ---

  /// At a block boundary: takes over cached blocks that hold the next tokens, up to max_tokens computed ones and never
  /// the last known token, which must be computed to draw the next. Returns the tokens gained.
  int AttachCached(Sequence& sequence, int max_tokens);
  /// Aborts unless the hashes noted for the sequence are those of its tokens.
  void CheckHashes(const Sequence& sequence) const;
  /// Leading blocks of the sequence's known tokens that are cached and in somebody's use: attaching them takes no free
  /// one.
  int HeldPrefixBlocks(Sequence& sequence);
  /// The hash of block `index` of the sequence's known tokens, or null when that block is not full or nothing is
  /// cached.
  const BlockHash* HashOfBlock(Sequence& sequence, int index);
  BlockHash SaltRoot(std::string_view salt) const { return cache_.Root(salt); }
  /// Cached leading blocks of a prompt, in order.
  std::vector<BlockId> FindPrefix(std::string_view salt, std::span<const TokenId> tokens) const;

  /// A prefix that stays cached although nobody uses it.
  struct Pin {
    uint64_t id;
    double expires_seconds;
    std::vector<BlockId> blocks;

    template <class Archive>
    void Transfer(Archive& archive) {
      archive(id, expires_seconds, blocks);
    }
  };
  /// Pins the cached leading blocks of a prompt; never more than half of the pool in all. Null when there is nothing to
  /// pin or no room.
  const Pin* PinPrefix(std::string_view salt, std::span<const TokenId> tokens, double expires_seconds);
  /// False when there is no such pin (any more).
  bool Unpin(uint64_t id);
  void ExpirePins(double now);
  /// Gives up every pin, because a request cannot run otherwise. False when there was none.
  bool BreakPins();
  const std::vector<Pin>& pins() const { return pins_; }

  /// Forgets all cached content; blocks in use stay in use.
  void FlushCache();

  // --- swapping ---

  /// Distinct device blocks that the sequences hold.
  int DistinctBlocks(std::span<const Sequence> sequences) const;
  /// Moves all blocks of the sequences to the host, sharing kept. The host pool must have DistinctBlocks free.
  void SwapOut(std::span<Sequence> sequences, StepPlan& plan);
  /// The way back. The device pool must have as many free.
  void SwapIn(std::span<Sequence> sequences, StepPlan& plan);

  // --- between engines (migration.cc) ---

  /// Host blocks that are set aside for a request on its way from or to another engine.
  struct Holding {
    uint64_t ticket;
    std::vector<BlockId> blocks;

    template <class Archive>
    void Transfer(Archive& archive) {
      archive(ticket, blocks);
    }
  };
  /// Gives back the blocks after the computed tokens.
  void Trim(Sequence& sequence);
  /// False when there are not so many.
  bool Reserve(uint64_t ticket, int num_host_blocks);
  /// The host blocks of swapped-out sequences become a holding: each once, in the order in which they are named first.
  /// The sequences keep the ids, as names.
  const std::vector<BlockId>& HoldSwapped(uint64_t ticket, std::span<const Sequence> sequences);
  /// The other way: `names[i]` in the sequences becomes block i of the holding; what is left of it is given back. False,
  /// and nothing is changed, when there is no such holding (any more).
  bool TakeHolding(uint64_t ticket, std::span<const BlockId> names, std::span<Sequence> sequences);
  void ReleaseHolding(uint64_t ticket);
  void ReleaseHoldings();
  const Holding* FindHolding(uint64_t ticket) const;
  const std::vector<Holding>& holdings() const { return holdings_; }

  template <class Archive>
  void Transfer(Archive& archive) {
    archive(pool_, host_pool_, cache_, uses_, now_, pins_, next_pin_, holdings_);
  }

 private:
  void ForgetWhatIsEvicted();
  bool NextWriteIsShared(const Sequence& sequence) const;
  BlockId AllocateDevice();
  void ExtendHashes(Sequence& sequence, int num_blocks);
  std::span<const TokenId> TokensOfBlock(const Sequence& sequence, int index) const;
  void Release(const Pin& pin);
  void ReleaseTable(Sequence& sequence);

  BlockManagerOptions options_;
  BlockPool pool_, host_pool_;
  PrefixCache cache_;
  struct Use {
    int filled = 0;
    int64_t since = 0;  // step
  };
  std::vector<Use> uses_;  // by device block
  int64_t now_ = 0;
  std::vector<Pin> pins_;
  uint64_t next_pin_ = 1;
  std::vector<Holding> holdings_;
  int watermark_blocks_;
  std::vector<BlockCopyPair> moved_;  // scratch: distinct blocks of one swap
};

}  // namespace quire
