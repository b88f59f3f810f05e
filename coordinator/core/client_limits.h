#pragma once

namespace quire {

/// What a client may have of one engine at a time; 0: no limit of its own. Part of every request, so that whoever
/// adopts or replays it knows them; those of a client's latest request count.
struct ClientLimits {
  int max_running_seqs = 0;  // sequences that run
  int max_blocks = 0;        // blocks that its running requests take at their longest

  bool operator==(const ClientLimits&) const = default;
};

}  // namespace quire
