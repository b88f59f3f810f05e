#include "coordinator/core/blocks/sequence_states.h"

#include <algorithm>
#include <utility>

#include "comm/base/error.h"
#include "coordinator/core/blocks/draft_counts.h"

namespace quire {

SequenceStates::SequenceStates(const BlockManagerOptions& options, BlockPool& pool, BlockFill& fill,
                               PrefixSharing& prefixes)
    : block_size_(options.block_size),
      num_blocks_(options.state_blocks),
      spacing_(options.state_spacing),
      pool_(pool),
      fill_(fill),
      prefixes_(prefixes) {}

/// Returns the two token counts after which the prompt should have checkpoints; 0: none. The first count is the end of
/// the tokens whose keys and values were cached. The second count is the end of the last full block before the prompt's
/// last token. A request with the same prompt cannot start later, because every request computes its last token.
std::array<int, 2> SequenceStates::PromptCheckpoints(const Sequence& sequence) const {
  const int last = (sequence.num_prompt_tokens - 1) / block_size_ * block_size_;
  const auto if_worth_it = [&](int num_tokens) { return num_tokens - sequence.begun >= spacing_ ? num_tokens : 0; };
  return {if_worth_it(sequence.shared_prefix), if_worth_it(last)};
}

bool SequenceStates::IsCheckpoint(const Sequence& sequence, int num_tokens) const {
  if (!prefixes_.enabled() || num_tokens == 0 || num_tokens % block_size_ != 0) return false;
  if (num_tokens > sequence.num_prompt_tokens && num_tokens % (kCheckpointBlocks * block_size_) == 0) return true;
  return std::ranges::count(PromptCheckpoints(sequence), num_tokens) > 0;
}

int SequenceStates::CutAt(const Sequence& sequence, int start, int end) const {
  if (!prefixes_.enabled()) return end;
  // Among the tokens generated before a preemption, only the last checkpoint justifies ending a chunk there, because it
  // would replace the earlier checkpoints.
  const int stride = kCheckpointBlocks * block_size_, latest = (sequence.length() - 1) / stride * stride;
  int cut = latest > sequence.num_prompt_tokens && latest > start ? std::min(latest, end) : end;
  for (const int at : PromptCheckpoints(sequence)) {
    if (at > start) cut = std::min(cut, at);
  }
  return cut;
}

int SequenceStates::DraftsUpToCheckpoint(const Sequence& sequence) const {
  if (!prefixes_.enabled()) return kMostDrafts;
  const int stride = kCheckpointBlocks * block_size_;
  return stride - sequence.num_planned() % stride - 1;
}

int SequenceStates::BlocksToGrow(std::span<const GrowTarget> targets) const {
  struct SharedState {
    BlockId first;
    int writers;
  };
  std::vector<SharedState> shared;
  int states = 0;
  for (const auto& [sequence, num_tokens, from_host, slice, slice_cost] : targets) {
    if (num_tokens <= sequence->num_planned()) continue;
    if (!sequence->state.empty() && !IsShared(*sequence)) continue;  // its blocks are written, or given back by Renew
    if (sequence->state.empty() || from_host > 0) {
      ++states;
    } else {
      const BlockId first = sequence->state.front();
      const auto known = std::ranges::find(shared, first, &SharedState::first);
      if (known != shared.end())
        ++known->writers;
      else
        shared.push_back({first, 1});
    }
  }
  for (const auto& [first, writers] : shared) states += std::min(writers, pool_.ref_count(first) - 1);
  return states * num_blocks_;
}

int SequenceStates::MostToGrow(const Sequence& sequence) const {
  return sequence.state.empty() || IsShared(sequence) ? num_blocks_ : 0;
}

bool SequenceStates::IsShared(const Sequence& sequence) const { return pool_.ref_count(sequence.state.front()) > 1; }

bool SequenceStates::IsKept(const Sequence& sequence) const {
  return prefixes_.checkpoints().Holds(sequence.state.front());
}

void SequenceStates::Allocate(Sequence& sequence) {
  while (static_cast<int>(sequence.state.size()) < num_blocks_) {
    sequence.state.push_back(pool_.Allocate());
    fill_.Open(sequence.state.back());
  }
}

bool SequenceStates::IsCopiedBy(const StepPlan& plan, const Sequence& sequence) const {
  return !sequence.state.empty() &&
         std::ranges::find(plan.copies, sequence.state.front(), &BlockCopyPair::source) != plan.copies.end();
}

void SequenceStates::Renew(Sequence& sequence) {
  // A pool that the sequence fills alone has no room for both states.
  pool_.ReleaseAll(std::exchange(sequence.state, {}));
  Allocate(sequence);
  sequence.begun = sequence.num_computed;
}

void SequenceStates::Grow(Sequence& sequence, int reserved, StepPlan& plan) {
  if (sequence.state.empty()) return Allocate(sequence);  // the workers start from a state of zeros
  const bool is_shared = IsShared(sequence), is_kept = IsKept(sequence);
  const bool is_checkpoint = !is_kept && IsCheckpoint(sequence, sequence.num_planned());
  if (!is_shared && !is_kept && !is_checkpoint) return;
  const bool has_room = pool_.num_free() - num_blocks_ >= reserved;
  if (!is_shared && !has_room) {
    if (is_kept) prefixes_.checkpoints().ForgetOf(sequence.state.front());
    return;
  }
  const std::vector<BlockId> before = std::exchange(sequence.state, {});
  Allocate(sequence);
  for (size_t i = 0; i < before.size(); ++i) plan.copies.push_back({before[i], sequence.state[i]});
  if (sequence.slot) plan.states.push_back({*sequence.slot, sequence.state});
  if (is_checkpoint && sequence.num_in_flight > 0) {
    // The tokens have no content ids yet, and outstanding steps still write the state. A state that steps write is
    // never shared.
    QUIRE_CHECK(!is_shared, "sequence {} writes a shared state", sequence.id);
    sequence.coming.push_back({sequence.num_planned(), before});
    return;
  }
  if (is_checkpoint) Keep(sequence, sequence.num_computed, before);
  // A shared state stays alive, because the other owners hold it.
  if (is_shared)
    pool_.ReleaseAll(before);
  else
    settling_.insert(settling_.end(), before.begin(), before.end());
}

void SequenceStates::Keep(Sequence& sequence, int num_tokens, std::span<const BlockId> blocks) {
  const CheckpointId kept = prefixes_.KeepState(sequence, num_tokens, blocks);
  if (kept == 0 || num_tokens <= sequence.num_prompt_tokens) return;
  prefixes_.checkpoints().Forget(std::exchange(sequence.latest_checkpoint, kept));
}

void SequenceStates::Computed(Sequence& sequence) {
  std::vector<ComingCheckpoint>& coming = sequence.coming;
  while (!coming.empty() && sequence.num_computed >= coming.front().num_tokens) {
    Keep(sequence, coming.front().num_tokens, coming.front().blocks);
    pool_.ReleaseAll(coming.front().blocks);
    coming.erase(coming.begin());
  }
}

void SequenceStates::KeepLast(Sequence& sequence) {
  const int computed = sequence.num_computed;
  // An answer may end before the last right draft token. The state then includes tokens after the answer's end.
  const bool is_whole = computed > 0 && computed % block_size_ == 0 && computed <= sequence.num_tokens();
  if (sequence.state.empty() || !is_whole || sequence.num_in_flight > 0 || IsKept(sequence)) return;
  Keep(sequence, computed, sequence.state);
}

void SequenceStates::Fork(const Sequence& parent, Sequence& child) {
  child.state = parent.state;
  for (const BlockId block : child.state) pool_.AddReference(block);
  child.begun = parent.begun;
  child.shared_prefix = parent.shared_prefix;
  child.latest_checkpoint = 0;
}

void SequenceStates::Free(Sequence& sequence) {
  pool_.ReleaseAll(sequence.state);
  sequence.state.clear();
  for (const ComingCheckpoint& coming : sequence.coming) pool_.ReleaseAll(coming.blocks);
  sequence.coming.clear();
  sequence.begun = sequence.shared_prefix = 0;
}

void SequenceStates::Settle() {
  pool_.ReleaseAll(settling_);
  settling_.clear();
}

}  // namespace quire
