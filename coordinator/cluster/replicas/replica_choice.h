#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace quire {

/// What is known of a replica when a request must go somewhere.
struct ReplicaView {
  bool serving = true;        // false: its group is lost for good
  bool recovering = false;    // its workers are started again
  bool prefills = false;      // it only computes prompts, others decode (parallel.prefill_replicas)
  int running = 0;            // sequences that have nothing left of their prompt to compute
  int waiting = 0;            // requests in its queue
  int64_t queued_tokens = 0;  // known tokens that it still has to compute, those on their way to it counted in
  int free_blocks = 0, usable_blocks = 0, free_host_blocks = 0;
  int64_t preemptions = 0;  // so far
  int cached_blocks = 0;    // leading blocks of the prompt at hand that it probably holds
};

/// A request in numbers.
struct RequestShape {
  int blocks = 0;  // for all its known tokens
  int block_size = 16;
};

/// An affinity to cached blocks outweighs this many tokens of waiting, or the tokens that are cached if those are more.
inline constexpr int64_t kAffinityMargin = 512;

/// How long a newcomer would wait, in tokens computed before it: what is queued; 16 for every sequence that decodes;
/// and what must be given up first where blocks are short.
int64_t LoadOf(const ReplicaView& view, const RequestShape& shape);

/// The replica for a new request. Of those that serve; of these, those that do not recover if there are any; of these,
/// those that prefill if there are any. The one that holds most of its leading blocks, unless its load exceeds the
/// least by more than the margin; else the least loaded; of equals the one with most free blocks; of equals the first.
/// Nothing when nobody serves.
std::optional<int> ChooseReplica(std::span<const ReplicaView> views, const RequestShape& shape);

/// Where a sequence that leaves `from` decodes on: like ChooseReplica without regard to caches, among replicas that
/// decode; nothing when no other one can take it now.
std::optional<int> ChooseDecoder(std::span<const ReplicaView> views, int from, const RequestShape& shape);

/// Where replica `from` should send a request because it is short of blocks and another has plenty: `from` has requests
/// waiting or has preempted since it was last asked (`preempted`), and another that neither waits nor recovers has room
/// for the request and keeps a quarter of its blocks free. The one with most free blocks.
std::optional<int> ChooseRelief(std::span<const ReplicaView> views, int from, bool preempted,
                                const RequestShape& shape);

}  // namespace quire
