#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace quire {

/// One replica as seen by the functions that choose a replica.
struct ReplicaView {
  bool serving = true;        // false: given up
  bool recovering = false;    // the replica's workers are being restarted
  bool prefills = false;      // true: computes only prompts; other replicas decode (parallel.prefill_replicas)
  int running = 0;            // sequences of running requests
  int waiting = 0;            // requests in its queue
  int64_t queued_tokens = 0;  // tokens that wait to be computed, including those of requests in transit
  int free_blocks = 0, usable_blocks = 0, free_host_blocks = 0;
  int64_t preemptions = 0;  // since the start
  int cached_blocks = 0;    // leading blocks of the new prompt that the replica probably has cached
};

/// A request's size.
struct RequestShape {
  int blocks = 0;  // blocks for all known tokens of the request
  int block_size = 16;
};

/// Cached blocks outweigh this many tokens of additional load, or the number of cached tokens if that is larger.
inline constexpr int64_t kAffinityMargin = 512;

/// Returns a newcomer's expected wait, in tokens computed before it: queued tokens, 16 per running sequence, and the
/// tokens of blocks that must be freed first.
int64_t LoadOf(const ReplicaView& view, const RequestShape& shape);

/// Chooses the replica for a new request among the serving replicas. Prefers replicas that are not recovering, and
/// among those the prefilling ones. Takes the replica with the most cached leading blocks, unless its load exceeds the
/// least load by more than the margin. Otherwise takes the least loaded replica; ties: most free blocks, then the
/// first. Returns nullopt when no replica serves.
std::optional<int> ChooseReplica(std::span<const ReplicaView> views, const RequestShape& shape);

/// Chooses where a request that leaves `from` continues to decode: the least loaded other replica that serves, is not
/// recovering and does not prefill. Returns nullopt when there is none.
std::optional<int> ChooseDecoder(std::span<const ReplicaView> views, int from, const RequestShape& shape);

/// Chooses the replica to which replica `from`, which is short of blocks, should send a request: `from` must have
/// waiting requests or must have preempted since it was last asked (`preempted`). Candidates have the same role, do not
/// recover, have no waiting requests and keep a quarter of their blocks free after taking the request. Takes the
/// candidate with the most free blocks.
std::optional<int> ChooseRelief(std::span<const ReplicaView> views, int from, bool preempted,
                                const RequestShape& shape);

}  // namespace quire
