#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace quire {

/// The state of one replica for the functions that choose among replicas.
struct ReplicaView {
  bool serving = true;        // false: given up
  bool recovering = false;    // the replica's workers are being restarted
  bool prefills = false;      // true: computes only prompts; other replicas decode (parallel.prefill_replicas)
  int running = 0;            // sequences of running requests
  int waiting = 0;            // requests in its queue
  int64_t queued_tokens = 0;  // tokens that wait to be computed, including those of requests in transit
  int free_blocks = 0, usable_blocks = 0, free_host_blocks = 0;
  int64_t preemptions = 0;  // preemptions in this replica since the start
  int cached_blocks = 0;    // leading blocks of the new prompt that the replica probably has cached
};

/// A request's size.
struct RequestShape {
  int blocks = 0;  // blocks for all known tokens of the request
  int block_size = 16;
};

/// A replica with cached blocks of the prompt is preferred even if its load is this many tokens higher than that of the
/// least loaded replica. If more tokens than that are cached, the number of cached tokens is the margin instead.
inline constexpr int64_t kAffinityMargin = 512;

/// Returns how long a new request would wait, measured in tokens that are computed before it: queued tokens, 16 for
/// each running sequence, and the tokens of blocks that must be freed first.
int64_t LoadOf(const ReplicaView& view, const RequestShape& shape);

/// Chooses the replica for a new request among the replicas that serve. Prefers replicas that are not recovering, and
/// among those the replicas for prefill. Takes the replica with the most cached leading blocks, unless its load exceeds
/// the least load by more than the margin (kAffinityMargin). Otherwise takes the least loaded replica; among equally
/// loaded replicas, takes the replica with the most free blocks, then the first replica. Returns nullopt when no
/// replica serves.
std::optional<int> ChooseReplica(std::span<const ReplicaView> views, const RequestShape& shape);

/// Chooses where a request that leaves `from` continues to decode: the least loaded other replica that serves, is not
/// recovering, and is not one for prefill. Returns nullopt when there is none.
std::optional<int> ChooseDecoder(std::span<const ReplicaView> views, int from, const RequestShape& shape);

/// Chooses the replica to which replica `from`, which is short of blocks, should send a request. `from` must have
/// waiting requests, or have preempted requests since its last check (`preempted`). Candidates have the same role, are
/// not recovering, have no waiting requests, and would still have a quarter of their blocks free with the request.
/// Takes the candidate with the most free blocks; returns nullopt when there is none.
std::optional<int> ChooseRelief(std::span<const ReplicaView> views, int from, bool preempted,
                                const RequestShape& shape);

}  // namespace quire
