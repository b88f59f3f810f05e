#pragma once

#include <cstdint>
#include <string>

namespace quire {

struct ReplayResult {
  int64_t segments = 0, steps = 0, requests = 0;
  int64_t differing = 0;         // steps whose plan hash is another one
  std::string first_difference;  // where; empty when there is none
  std::string foreign;           // segments that another version wrote and that were passed over
  std::string torn;              // segments that end in a damaged or half-written record, by name; empty for none
  uint64_t lost = 0;             // records that did not get to the disk, as far as the journal knows
};

/// Runs the scheduler again over a journal: every segment from its snapshot, with the inputs as they were, and compares
/// the hash of every plan with the one that was sent. No workers are needed. Throws Error when the journal cannot be
/// read at all.
ReplayResult Replay(const std::string& directory);

/// The story of one request, by its id or its name (what the API answered as "id"): arrival, every decision about it
/// with its reason, and what it cost. Throws Error when the journal does not know it.
std::string ExplainRequest(const std::string& directory, const std::string& id_or_name);

}  // namespace quire
