#include "coordinator/core/schedule/integrity_check.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "comm/base/error.h"

namespace quire {

namespace {

/// A number for each block, 0 at first. A vector and not a map, because the tests check every step of every run.
class NumberOfBlock {
 public:
  int& operator[](BlockId block) {
    QUIRE_CHECK(block >= kNullBlock, "block {} does not exist", block);
    const auto place = static_cast<size_t>(block);
    if (place >= numbers_.size()) numbers_.resize(std::max(place + 1, 2 * numbers_.size()));
    return numbers_[place];
  }
  const std::vector<int>& all() const { return numbers_; }

 private:
  std::vector<int> numbers_;
};

/// Counts the references to blocks by sequences, pins and tickets, and compares the counts with the pools and the
/// prefix cache.
class Recount {
 public:
  explicit Recount(const BlockManager& blocks) : blocks_(blocks) {
    for (const auto& pin : blocks.pins().all()) {
      for (const BlockId block : pin.blocks) ++device_[block];
    }
    for (const auto& holding : blocks.host_holdings().all()) {
      for (const BlockId block : holding.blocks) ++host_[block];
    }
    for (const auto& holding : blocks.device_holdings().all()) {
      for (const BlockId block : holding.blocks) ++device_[block];
    }
  }

  /// Checks a running sequence and counts its references. `drafts`: number of draft tokens of the sequence in
  /// outstanding steps.
  void Running(const Sequence& s, int drafts) {
    const int length = static_cast<int>(s.blocks.size()), size = blocks_.block_size();
    QUIRE_CHECK(s.host_blocks.empty(), "running sequence {} is swapped out", s.id);
    QUIRE_CHECK(!s.finished || length == 0, "finished sequence {} holds blocks", s.id);
    QUIRE_CHECK(length >= blocks_.BlocksFor(s.num_planned()) && length <= blocks_.BlocksFor(s.length() + drafts),
                "sequence {}: {} blocks, {} of {} tokens computed or in flight", s.id, length, s.num_planned(),
                s.length());
    if (!s.finished) blocks_.prefixes().CheckHashes(s);
    RunningState(s);
    ++num_running_;
    for (int i = 0; i < length; ++i) {
      const BlockId block = s.blocks[static_cast<size_t>(i)];
      QUIRE_CHECK((block == kNullBlock) == (i < s.first_block), "sequence {}: entry {} is block {}", s.id, i, block);
      if (block == kNullBlock) continue;
      QUIRE_CHECK(std::exchange(holder_[block], num_running_) != num_running_, "sequence {} holds block {} twice", s.id,
                  block);
      ++device_[block];
      QUIRE_CHECK(states_[block] == 0, "block {} of sequence {} is part of a state, too", block, s.id);
      tables_[block] = 1;
      const int filled = std::clamp(s.num_computed - i * size, 0, size);
      QUIRE_CHECK(blocks_.fill().tokens(block) == filled, "block {}: {} tokens filled, sequence {} knows of {}", block,
                  blocks_.fill().tokens(block), s.id, filled);
      const auto hash = blocks_.prefixes().enabled() ? blocks_.prefixes().cache().HashOf(block) : std::nullopt;
      const auto index = static_cast<size_t>(i);
      // A choice from another engine lacks the hashes of blocks if this engine has not computed the blocks for it.
      // Another choice that shares such a block may have put the block into the cache earlier.
      QUIRE_CHECK(!hash || index >= s.contents.hashes.size() || *hash == s.contents.hashes[index],
                  "block {} of sequence {} is cached as something else", block, s.id);
      QUIRE_CHECK(filled == size || !hash, "block {} is cached, but not full", block);
    }
  }

  void Waiting(const Sequence& s) {
    QUIRE_CHECK(s.blocks.empty() && s.state.empty() && s.coming.empty() && !s.slot,
                "waiting sequence {} holds something", s.id);
    QUIRE_CHECK(s.num_in_flight == 0 && s.num_pending == 0 && s.num_passed == 0, "waiting sequence {} is in flight",
                s.id);
    for (const BlockId block : s.host_blocks) {
      if (block != kNullBlock) ++host_[block];
    }
    for (const BlockId block : s.host_state) ++host_[block];
  }

  /// Aborts if choices of a forked request have different blocks for the same full block of the prompt.
  void CheckSharedPrompt(const Request& request) const {
    const auto live = std::ranges::find_if(request.sequences, [](const Sequence& s) { return !s.finished; });
    const auto full = static_cast<size_t>((request.num_prompt_tokens() - 1) / blocks_.block_size());
    for (auto s = live; request.forked && s != request.sequences.end(); ++s) {
      for (size_t i = 0; !s->finished && i < std::min({full, s->blocks.size(), live->blocks.size()}); ++i) {
        const bool in_windows = s->blocks[i] != kNullBlock && live->blocks[i] != kNullBlock;
        QUIRE_CHECK(!in_windows || s->blocks[i] == live->blocks[i],
                    "choices {} and {} of request {} do not share entry {}", live->choice, s->choice, request.id, i);
      }
    }
  }

  /// Aborts unless outstanding steps compute exactly the sequence's tokens in flight and sample exactly its pending
  /// tokens, within the request's limits.
  static void CheckFlight(const Request& request, const Sequence& s, const OutstandingSteps& steps) {
    int next = s.num_computed, drawn = 0;
    int64_t passed = 0;
    const int drafts = steps.DraftsOf(s);
    for (int step = 0; step < steps.size(); ++step) {
      for (const StepMember& member : steps.at(step).members) {
        if (member.sequence != &s) continue;
        QUIRE_CHECK(member.start == next && s.slot == member.slot && member.request == &request,
                    "sequence {}: an outstanding step computes from {} on, not from {}", s.id, member.start, next);
        next += member.num_known();
        drawn += member.draws;
        if (member.slice.count == 0) continue;
        QUIRE_CHECK(passed == 0 || member.slice.begin == passed, "sequence {}: a slice begins at unit {}, not at {}",
                    s.id, member.slice.begin, passed);
        passed = member.slice.end();
      }
    }
    QUIRE_CHECK(next == s.num_planned() && drawn == s.num_pending, "sequence {}: {} computed, {} drawn, not {} and {}",
                s.id, next, drawn, s.num_planned(), s.num_pending);
    QUIRE_CHECK(passed == 0 || passed == s.num_passed, "sequence {}: its pass is planned up to unit {}, not {}", s.id,
                passed, s.num_passed);
    QUIRE_CHECK(drafts == 0 || steps.size() == 1, "sequence {}: a step is planned before {} drafts are verified", s.id,
                drafts);
    QUIRE_CHECK(s.length() <= s.num_prompt_tokens + request.limits.max_tokens, "sequence {} gets {} tokens", s.id,
                s.length());
    QUIRE_CHECK(s.num_planned() < s.length() || s.num_pending > 0 || s.finished,
                "sequence {} has nothing to compute and nothing in flight", s.id);
  }

  /// Aborts unless every computed prompt row has been scored, if the request's prompt rows are to be scored.
  static void CheckScored(const Request& request, const Sequence& s) {
    const int rows = std::min(s.num_computed, request.num_prompt_tokens() - 1);
    QUIRE_CHECK(request.sampling.num_prompt_logprobs < 0 || rows <= request.num_scored,
                "sequence {}: {} rows are computed, {} scored", s.id, rows, request.num_scored);
  }

  static void CheckSwapped(const Request& request) {
    std::set<BlockId> distinct;
    for (const Sequence& s : request.sequences) {
      distinct.insert(s.host_blocks.begin(), s.host_blocks.end());
      distinct.insert(s.host_state.begin(), s.host_state.end());
    }
    distinct.erase(kNullBlock);
    QUIRE_CHECK(static_cast<int>(distinct.size()) == request.num_swapped_blocks,
                "request {}: {} blocks on the host, {} noted", request.id, distinct.size(), request.num_swapped_blocks);
  }

  void CheckCounts() const {
    Compare(device_, blocks_.pool(), "device");
    Compare(host_, blocks_.host_pool(), "host");
  }

 private:
  /// Aborts unless an unfinished sequence with planned tokens has a whole state, any other sequence has none, no block
  /// of the state is in a table, and a state that outstanding steps write is neither shared nor kept as a checkpoint.
  void RunningState(const Sequence& s) {
    QUIRE_CHECK(s.host_state.empty(), "the state of running sequence {} is swapped out", s.id);
    const auto blocks = static_cast<size_t>(blocks_.states().num_blocks());
    const bool has_one = !s.finished && s.num_planned() > 0;
    QUIRE_CHECK(s.state.size() == (has_one ? blocks : 0), "sequence {}: a state of {} blocks after {} tokens", s.id,
                s.state.size(), s.num_planned());
    CountState(s, s.state, s.num_in_flight > 0);
    int before = s.num_computed;
    for (const ComingCheckpoint& coming : s.coming) {
      QUIRE_CHECK(coming.num_tokens > before, "sequence {}: no state is to come after {} tokens", s.id,
                  coming.num_tokens);
      before = coming.num_tokens;
      CountState(s, coming.blocks, true);
    }
  }

  /// Checks a state's blocks and counts the references to them. `written`: an outstanding step writes the state.
  void CountState(const Sequence& s, const std::vector<BlockId>& state, bool written) {
    for (const BlockId block : state) {
      QUIRE_CHECK(tables_[block] == 0, "block {} of the state of sequence {} is in a table", block, s.id);
      QUIRE_CHECK(!written || (blocks_.pool().ref_count(block) == 1 && !blocks_.prefixes().checkpoints().Holds(block)),
                  "block {} of a state is shared while sequence {} writes it", block, s.id);
      states_[block] = 1;
      ++device_[block];
    }
  }

  static void Compare(const NumberOfBlock& owners, const BlockPool& pool, const char* where) {
    int held = 0;
    for (size_t place = 0; place < owners.all().size(); ++place) {
      const int count = owners.all()[place];
      if (count == 0) continue;
      const auto block = static_cast<BlockId>(place);
      QUIRE_CHECK(pool.ref_count(block) == count, "{} block {}: {} references, {} owners", where, block,
                  pool.ref_count(block), count);
      ++held;
    }
    QUIRE_CHECK(held == pool.num_held(), "{} {} blocks held, {} owned", pool.num_held(), where, held);
  }

  const BlockManager& blocks_;
  NumberOfBlock device_, host_;    // reference counts
  NumberOfBlock tables_, states_;  // 1 for blocks that hold keys and values; 1 for blocks that hold states
  NumberOfBlock holder_;           // the last running sequence that was found to hold the block, counted from 1
  int num_running_ = 0;            // running sequences that were checked
};

/// Aborts unless every checkpoint's state is whole, has no block that holds cached keys and values, and belongs to a
/// cached block. Also aborts if the pool caches a block that is neither in the prefix cache nor part of such a state.
void CheckCheckpoints(const BlockManager& blocks) {
  const PrefixSharing& prefixes = blocks.prefixes();
  prefixes.checkpoints().CheckIntegrity();
  int kept = prefixes.cache().size();
  for (const auto& [id, checkpoint] : prefixes.checkpoints().all()) {
    QUIRE_CHECK(prefixes.cache().HashOf(checkpoint.end), "a state is kept behind block {}, which is not cached",
                checkpoint.end);
    QUIRE_CHECK(static_cast<int>(checkpoint.blocks.size()) == blocks.states().num_blocks(),
                "a state of {} blocks is kept", checkpoint.blocks.size());
    kept += static_cast<int>(checkpoint.blocks.size());
    for (const BlockId block : checkpoint.blocks) {
      QUIRE_CHECK(!prefixes.cache().HashOf(block), "block {} holds tokens and a state", block);
      QUIRE_CHECK(blocks.pool().keeps(block), "block {} of a state that is kept is not", block);
    }
  }
  for (BlockId block = 1; block <= blocks.num_usable(); ++block) kept -= blocks.pool().keeps(block);
  QUIRE_CHECK(kept == 0, "blocks are kept that nobody can find");
}

}  // namespace

void CheckSchedule(const SchedulerLimits& limits, const BlockManager& blocks, const WaitingQueue& queue,
                   const RunningSet& running, const OutstandingSteps& steps) {
  const std::vector<Request*>& requests = running.requests();
  blocks.pool().CheckIntegrity();
  blocks.host_pool().CheckIntegrity();
  blocks.host_cache().CheckIntegrity();
  blocks.prefixes().cache().CheckIntegrity();
  CheckCheckpoints(blocks);
  Recount recount(blocks);
  std::set<SlotId> slots(running.free_slots().begin(), running.free_slots().end());
  int sequences = 0;
  int64_t kept_rows = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    QUIRE_CHECK(i == 0 || Senior(*requests[i - 1], *requests[i]), "request {} is out of order", requests[i]->id);
    recount.CheckSharedPrompt(*requests[i]);
    for (const Sequence& sequence : requests[i]->sequences) {
      recount.Running(sequence, steps.DraftsOf(sequence));
      recount.CheckFlight(*requests[i], sequence, steps);
      recount.CheckScored(*requests[i], sequence);
      ++sequences;
      kept_rows += sequence.in_pass() ? sequence.num_prompt_tokens : 0;
      if (sequence.slot) QUIRE_CHECK(slots.insert(*sequence.slot).second, "slot {} has two owners", *sequence.slot);
    }
  }
  for (const Request* request : queue.All()) {
    for (const Sequence& sequence : request->sequences) recount.Waiting(sequence);
    recount.CheckSwapped(*request);
  }
  recount.CheckCounts();
  QUIRE_CHECK(kept_rows <= limits.max_kept_rows, "{} rows of texts in slices, at most {}", kept_rows,
              limits.max_kept_rows);
  QUIRE_CHECK(sequences <= limits.max_running, "{} sequences run, at most {}", sequences, limits.max_running);
  QUIRE_CHECK(static_cast<int>(slots.size()) == limits.max_running, "{} of {} slots accounted for", slots.size(),
              limits.max_running);
  QUIRE_CHECK(static_cast<int>(queue.All().size()) == queue.size(), "{} requests wait, {} counted", queue.All().size(),
              queue.size());
}

}  // namespace quire
