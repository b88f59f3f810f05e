#include "coordinator/core/schedule/request_work.h"

#include <algorithm>
#include <utility>

#include "coordinator/core/schedule/step_writer.h"

namespace quire {

namespace {

// The most bytes that one plan spends on sequences that it sends in full; a frame has room for 64 MiB. A plan's first
// sequence is sent even if it is larger, and the beams of one request are sent together.
constexpr int64_t kMaxAddedBytes = 16 << 20;
bool FitsFrame(int64_t added, int64_t more) { return added == 0 || added + more <= kMaxAddedBytes; }

}  // namespace

std::span<GrowTarget> RequestWork::FindWork(Request& request, Allowance allowance, StepDraft& draft) {
  std::vector<GrowTarget>& work = draft.work;
  work.clear();
  int64_t added = draft.added_bytes;
  for (Sequence& sequence : request.sequences) blocks_.LeaveWindow(sequence);
  const auto draws = [](const Sequence& sequence) { return sequence.num_pending > 0; };
  if (request.beams != nullptr && std::ranges::any_of(request.sequences, draws)) return work;
  if (!request.forked && !ShareLeadersPrefix(request, allowance, draft)) return work;
  for (Sequence& sequence : request.sequences) {
    // A sequence is complete when an outstanding step samples its last token, which is no later step's input.
    const bool complete = sequence.length() == sequence.num_prompt_tokens + request.limits.max_tokens;
    if (sequence.finished || complete || (draft.in_turns && sequence.sits_out)) continue;
    const bool decodes = request.TokensToCompute(sequence) == 1 && allowance.decodes > 0;
    Attach(request, sequence, sequence.num_tokens());
    const int from_host = BlocksFromHost(request, sequence, sequence.num_tokens());
    const int start = sequence.num_planned() + from_host * blocks_.block_size(), left = sequence.length() - start;
    const int most = decodes ? 1 : ChunkWithin(allowance, start);
    const bool in_slices = limits_.whole_prompts() && (sequence.in_pass() || left > most);
    const GrowTarget target = in_slices
                                  ? passes_.NextSlice(request, most, draft)
                                  : GrowTarget{.sequence = &sequence,
                                               .num_tokens = start + TokensFor(request, sequence, start, left, most),
                                               .from_host = from_host};
    if (target.num_tokens <= start || WaitsForPrefix(request, sequence, start)) continue;
    if (!sequence.slot) {
      const int64_t bytes = StepWriter::BytesToAdd(request, sequence);
      if (!FitsFrame(added, bytes) && request.beams == nullptr) continue;
      added += bytes;
    }
    work.push_back(target);
    const int cost = in_slices ? target.slice_cost : request.StepCost(start, target.num_tokens - start);
    (decodes ? allowance.decodes : allowance.chunks) -= cost;
    if (!decodes && !in_slices) allowance.work -= int64_t{cost} * cost_.Weight(start);
  }
  if (request.beams != nullptr) DrawTogether(request, work);
  return work;
}

/// Lets the first live sequence (the leader) compute the prompt except its last token, as far as the budget allows.
/// Then all sequences share the leader's blocks, and each computes its remaining token. Returns false until the leader
/// is done; until then draft.work has only the leader's next chunk.
bool RequestWork::ShareLeadersPrefix(Request& request, const Allowance& allowance, StepDraft& draft) {
  auto live = request.sequences.begin();
  while (live->finished) ++live;
  Sequence& leader = *live;
  const int shared = request.sequences.size() > 1 ? request.num_prompt_tokens() - 1 : 0;
  Attach(request, leader, shared);
  if (leader.num_computed < shared) {
    const bool fits = leader.slot || FitsFrame(draft.added_bytes, StepWriter::BytesToAdd(request, leader));
    const int from_host = BlocksFromHost(request, leader, shared - 1);
    const int start = leader.num_planned() + from_host * blocks_.block_size();
    const int count = TokensFor(request, leader, start, shared - start, ChunkWithin(allowance, start));
    if (count > 0 && fits && !WaitsForPrefix(request, leader, start))
      draft.work.push_back({&leader, start + count, from_host});
    return false;
  }
  for (++live; live != request.sequences.end(); ++live) {
    if (!live->finished) blocks_.Fork(leader, *live);
  }
  request.forked = true;
  return true;
}

/// Returns the tokens of a chunk from `start` on that the allowance covers. If any work is left, one token is covered,
/// however long its context.
int RequestWork::ChunkWithin(const Allowance& allowance, int start) const {
  if (allowance.work <= 0) return 0;
  return static_cast<int>(
      std::min<int64_t>(allowance.chunks, std::max<int64_t>(1, allowance.work / cost_.Weight(start))));
}

/// Returns how many of the sequence's `count` tokens from `start` on the step computes: as many as the budget allows,
/// but only up to the next position at which a state should be saved.
int RequestWork::TokensFor(const Request& request, const Sequence& sequence, int start, int count, int budget) const {
  const int most = request.TokensFor(start, count, budget);
  return most <= 0 || !blocks_.has_states() ? most : blocks_.states().CutAt(sequence, start, start + most) - start;
}

/// Lets a sequence that the workers do not know yet take over cached blocks, up to max_tokens tokens and up to the
/// first row that must be scored.
void RequestWork::Attach(Request& request, Sequence& sequence, int max_tokens) {
  if (sequence.slot) return;
  const int gained = blocks_.prefixes().Attach(sequence, std::min(max_tokens, request.NumCacheable()));
  if (gained > 0) blocks_.LeaveWindow(sequence);
  StepWriter::NoteCached(request, gained);
}

/// Returns how many of the next blocks of a sequence, up to max_tokens tokens, should come from the host if the workers
/// do not know the sequence yet: all that have copies there, or none if computing them is quicker. Returns 0 for beams:
/// the next tokens of all beams are sampled in the same step, so it must be clear before each step how far every beam
/// is computed.
int RequestWork::BlocksFromHost(const Request& request, Sequence& sequence, int max_tokens) {
  if (sequence.slot || request.beams != nullptr) return 0;
  const int most = std::min(request.NumCacheable(), max_tokens);
  const int count = blocks_.host_cache().Count(sequence, most);
  const int moves = count + blocks_.states().num_blocks();
  return cost_.MovingIsQuicker(moves, sequence.num_computed, count * blocks_.block_size()) ? count : 0;
}

/// Takes the last token of each beam out of the work unless this step can sample for all beams, because all beams
/// branch together.
void RequestWork::DrawTogether(const Request& request, std::vector<GrowTarget>& work) {
  size_t live = 0, drawing = 0;
  for (const Sequence& sequence : request.sequences) live += !sequence.finished;
  const auto draws = [](const GrowTarget& each) { return each.num_tokens == each.sequence->length(); };
  for (const GrowTarget& each : work) drawing += draws(each);
  if (drawing == live) return;
  for (GrowTarget& each : work) each.num_tokens -= draws(each);
  std::erase_if(work, [](const GrowTarget& each) { return each.num_tokens == each.sequence->num_planned(); });
}

/// True when an outstanding step or the step being planned computes the block that this sequence needs at `start`. The
/// sequence then waits and shares that block.
bool RequestWork::WaitsForPrefix(Request& request, Sequence& sequence, int start) {
  const int size = blocks_.block_size();
  if (sequence.slot || sequence.num_computed % size != 0) return false;
  const int most = std::min(sequence.num_tokens() - 1, request.NumCacheable());
  if (sequence.contents.num_named * size != sequence.num_computed) return false;
  // In models with states, the cached keys and values may reach beyond the last cached state. Where they end is known
  // once no step computes the next block.
  const int index = std::max(start, sequence.shared_prefix) / size;
  if ((index + 1) * size > most) return false;
  const BlockHash* hash = blocks_.prefixes().HashOfBlock(sequence, index);
  if (hash == nullptr || !steps_.Compute(*hash)) return false;
  if (!std::exchange(request.told_to_wait, true))
    decisions_.Tell(DecisionKind::kWaitsForPrefix, request, sequence.num_computed, 0);
  return true;
}

}  // namespace quire
