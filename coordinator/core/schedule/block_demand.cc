#include "coordinator/core/schedule/block_demand.h"

#include <algorithm>

namespace quire {

int64_t BlockDemand::AtLongest(int num_prompt_tokens, int max_tokens, int n) const {
  // The last generated token is not an input of any step, so it needs no slot in the KV cache.
  int64_t longest = int64_t{num_prompt_tokens} + max_tokens - 1;
  if (blocks_.sliding_window() > 0) {  // window and chunk may both begin and end inside a block
    const int64_t seen = int64_t{blocks_.sliding_window()} + limits_.max_step_tokens + 2 * blocks_.block_size();
    longest = std::min(longest, seen);
  }
  return int64_t{n} * (blocks_.BlocksFor(longest) + blocks_.states().num_blocks());
}

/// Returns the number of blocks that a table still takes until it covers num_tokens tokens. The table has `entries`
/// entries: `held` of them are blocks, and the others are null.
int BlockDemand::Ahead(int entries, int held, int num_tokens) const {
  int blocks = blocks_.BlocksFor(num_tokens) - entries;
  if (blocks_.sliding_window() > 0) {  // later blocks replace blocks that leave the window
    const int most = blocks_.BlocksFor(int64_t{blocks_.sliding_window()} + limits_.max_step_tokens) + 1;
    blocks = std::min(blocks, most - held);
  }
  return std::max(0, blocks);
}

/// Returns the number of blocks that the sequence must still take for num_tokens tokens. The `shared` blocks of other
/// sequences that it will share do not count.
int BlockDemand::Ahead(const Sequence& sequence, int num_tokens, int shared) const {
  return Ahead(static_cast<int>(sequence.blocks.size()) + shared, sequence.num_held_blocks(), num_tokens);
}

int BlockDemand::ToRun(Request& request) const {
  return request.swapped_out() ? ToComeBack(request) : ToBegin(request);
}

/// Returns the number of free blocks that a request without blocks needs for all its known tokens.
int BlockDemand::ToBegin(Request& request) const {
  const int prompt = (request.num_prompt_tokens() - 1) / blocks_.block_size();  // full prompt blocks that choices share
  const int cacheable = std::min(prompt, request.NumCacheable() / blocks_.block_size());
  const bool window = blocks_.sliding_window() > 0;  // a shared block may leave the window of one sequence only
  int needed = 0;
  for (Sequence& sequence : request.sequences) {
    if (sequence.finished) continue;
    const int shared = needed > 0 ? prompt : window ? 0 : blocks_.prefixes().HeldBlocks(sequence, cacheable);
    needed += std::max(1, Ahead(sequence, sequence.num_tokens(), shared)) + blocks_.states().num_blocks();
  }
  return needed;
}

/// Returns the number of free blocks that a swapped-out request needs for its blocks on the host and for its known
/// tokens that are not computed.
int BlockDemand::ToComeBack(const Request& request) const {
  int needed = request.num_swapped_blocks;
  for (const Sequence& sequence : request.sequences) {
    if (sequence.finished) continue;
    const auto entries = static_cast<int>(sequence.host_blocks.size());
    needed += std::max(1, Ahead(entries, entries - sequence.first_block, sequence.num_tokens()));
    // If several choices share the block that is written next, the copy takes one more block.
    needed += request.sequences.size() > 1 && sequence.num_computed % blocks_.block_size() != 0;
    // If the choices share a state, its copy takes blocks. A sequence without a state takes blocks for a new state.
    if (request.sequences.size() > 1 || sequence.host_state.empty()) needed += blocks_.states().num_blocks();
  }
  return needed;
}

int BlockDemand::Soon(const Request& request) const {
  int blocks = 0;
  const int shared = request.forked ? 0 : (request.num_prompt_tokens() - 1) / blocks_.block_size();
  bool first = true;  // before the fork only the first sequence has the shared blocks
  for (const Sequence& sequence : request.sequences) {
    if (sequence.finished) continue;
    const int longest = sequence.num_prompt_tokens + request.limits.max_tokens - 1;  // the last token is never computed
    const int soon = std::min(sequence.length() + limits_.lookahead_tokens, longest);
    blocks += Ahead(sequence, soon, first ? 0 : shared);
    if (blocks_.has_states()) blocks += blocks_.states().MostToGrow(sequence);
    first = false;
  }
  return blocks;
}

int BlockDemand::MostToGrow(std::span<Request* const> running) const {
  int most = 0;
  for (const Request* request : running) {
    for (const Sequence& sequence : request->sequences) {
      if (sequence.finished) continue;
      most += 1 + std::max(0, blocks_.BlocksFor(sequence.length()) - static_cast<int>(sequence.blocks.size()));
      if (blocks_.has_states()) most += blocks_.states().MostToGrow(sequence);
    }
  }
  return most;
}

int BlockDemand::Held(const Request& request) {
  return request.swapped_out() ? request.num_swapped_blocks : DistinctBlocks(request.sequences);
}

}  // namespace quire
