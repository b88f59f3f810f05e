#include "coordinator/core/schedule/migration.h"

#include <algorithm>
#include <utility>

#include "coordinator/core/schedule/block_demand.h"

namespace quire {

/// Takes the request out of steps, slots and queues. The request keeps the blocks of its computed tokens, except those
/// outside the sliding window.
void Migration::TakeOut(Request& request) {
  // Tokens that outstanding steps sample for the request are dropped and sampled again later, perhaps in another
  // engine. The random numbers for sampling depend on the token's position, so the tokens will be the same.
  for (Sequence& sequence : request.sequences) {
    steps_.Forget(sequence);
    blocks_.LeaveWindow(sequence);
    blocks_.Trim(sequence, sequence.num_computed);
  }
  for (auto it = request.sequences.rbegin(); it != request.sequences.rend(); ++it) running_.LeaveWorkers(*it);
  request.num_preemptions += running_.Remove(request);  // so that it is queued as preempted later
  queue_.Remove(request);
  queue_.Left(request);
}

void Migration::DiscardComputed(Request& request) {
  for (auto it = request.sequences.rbegin(); it != request.sequences.rend(); ++it) blocks_.Free(*it);
  request.num_swapped_blocks = 0;
  request.forked = false;
}

std::vector<BlockId> Migration::Depart(Request& request, const command::Depart& how,
                                       std::vector<BlockCopyPair>& moves) {
  // A recurrent state includes the tokens of outstanding steps and cannot be reduced to the state of the known tokens.
  const bool has_its_states = !blocks_.has_states() || std::ranges::all_of(request.sequences, [](const Sequence& s) {
    return s.num_in_flight == 0;
  });
  TakeOut(request);
  const int blocks = BlockDemand::Held(request);
  const bool fits =
      how.ticket != 0 && blocks > 0 && blocks <= how.max_blocks && has_its_states && !request.PoolsAllRows();
  if (fits && !request.swapped_out() && blocks <= blocks_.host_pool().num_free()) {
    StepPlan out;
    blocks_.swap().Out(request.sequences, out);
    moves = std::move(out.swap_outs);
    request.num_swapped_blocks = blocks;
  }
  if (fits && request.swapped_out()) {
    decisions_.Tell(DecisionKind::kDeparted, request, blocks, 0);
    return blocks_.host_holdings().Hold(how.ticket, request.sequences);
  }
  DiscardComputed(request);
  decisions_.Tell(DecisionKind::kDeparted, request, how.num_copied, std::max(0, blocks - how.num_copied));
  return {};
}

void Migration::SetAside(Request& request) {
  TakeOut(request);
  const int blocks = BlockDemand::Held(request);
  DiscardComputed(request);
  request.account = nullptr;
  decisions_.Tell(DecisionKind::kSetAside, request, blocks, 1);
}

void Migration::ArriveAside(Request& request) {
  Restart(request, false);
  request.num_swapped_blocks = 0;
}

void Migration::TakeUp(Request& request) {
  ArriveAside(request);
  decisions_.Tell(DecisionKind::kTakenUp, request, 0, queue_.size());
  Enter(request);
}

/// Resets the fields of a request that comes from another engine or was set aside, so that this engine can queue the
/// request. has_blocks: the request's computed blocks are on the host; otherwise its computed tokens are forgotten.
void Migration::Restart(Request& request, bool has_blocks) {
  for (Sequence& sequence : request.sequences) {
    if (!has_blocks) {
      sequence.host_blocks.clear();
      sequence.host_state.clear();
      sequence.num_computed = 0;
      sequence.first_block = 0;
    }
    sequence.contents.adapter = request.adapter;
    sequence.contents.root = blocks_.prefixes().Root(request.cache_salt, sequence.contents.adapter);
    sequence.contents.hashes.clear();  // another engine makes its hashes with another key
    sequence.latest_checkpoint = 0;
    sequence.begun = sequence.shared_prefix = 0;
    sequence.contents.Restart();
    sequence.last_step = 0;  // every engine numbers its own steps
  }
  if (!has_blocks) request.forked = false;
  request.told_to_wait = false;
}

void Migration::Arrive(Request& request, uint64_t ticket, std::span<const BlockId> names) {
  const bool has_blocks = !names.empty() && blocks_.host_holdings().Take(ticket, names, request.sequences);
  Restart(request, has_blocks);
  if (!has_blocks && !names.empty())
    blocks_.CacheArrived(ticket, static_cast<int>(names.size()), request.sequences.front());
  request.num_swapped_blocks = has_blocks ? static_cast<int>(names.size()) : 0;
  decisions_.Tell(DecisionKind::kArrived, request, static_cast<int64_t>(names.size()), queue_.size());
  Enter(request);
}

/// Queues a request that comes from another engine or was set aside. If the request was ever admitted, its client has
/// been charged for the prompt, so the request waits like a preempted one.
void Migration::Enter(Request& request) {
  if (request.num_preemptions == 0) return queue_.Add(request);
  queue_.Join(request);
  queue_.AddPreempted(request);
}

}  // namespace quire
