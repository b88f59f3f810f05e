#pragma once

#include <cstdint>
#include <string>

namespace quire {

struct ReplayResult {
  int64_t segments = 0, steps = 0, requests = 0;
  int64_t differing = 0;         // commands whose outcome differs from the recorded one
  std::string first_difference;  // the position and kind of the first difference; empty: none
  std::string foreign;           // skipped segments of another format or version, by number
  std::string torn;              // segments with an incomplete or damaged record, by number; empty: none
  uint64_t lost = 0;             // records that never reached the disk, as far as the journal knows
};

/// Replays a journal without workers: loads every segment's snapshot, applies the recorded commands, and compares their
/// outcomes, such as the hash of every plan, with the recorded outcomes. Throws Error when no segment has a complete
/// snapshot.
ReplayResult Replay(const std::string& directory);

/// Returns the story of one request: its arrival, and every decision about it with the reason. `id_or_name`: the
/// engine's number of the request, or the "id" of its API answer. Throws Error when the journal does not contain the
/// request.
std::string ExplainRequest(const std::string& directory, const std::string& id_or_name);

}  // namespace quire
