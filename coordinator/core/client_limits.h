#pragma once

namespace quire {

/// Limits on a client's use of one engine; 0: no limit. Every request has its client's limits, so that an engine that
/// adopts or replays the request knows them. The limits of the client's latest request apply.
struct ClientLimits {
  int max_running_seqs = 0;  // most sequences that run at the same time
  int max_blocks = 0;        // most blocks that the client's running requests take together at their full length

  bool operator==(const ClientLimits&) const = default;
};

}  // namespace quire
