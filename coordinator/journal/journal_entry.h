#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "coordinator/journal/record_ring.h"

namespace quire {

/// Kinds of records. Every segment begins with a snapshot; what follows are the engine's inputs in order, and what it
/// decided. Payloads are archives (archive.h) of what the comment says.
enum class JournalEntry : uint8_t {
  kSnapshot = 1,  // the last part of: seconds between the engine's clock and 1970; kJournalFormat; the engine
  kSubmit,        // accepted; the request
  kCancel,        // request id
  kPlan,          // now; step; plan hash
  kCommit,        // tokens; times; choices that ended by their text
  kExpire,        // now
  kEpoch,         // epoch; blocks on the device; blocks on the host
  kSwapSpeed,     // seconds per block
  kFlush,
  kPin,            // salt; tokens; when it expires
  kUnpin,          // pin id
  kDecision,       // now; the decision
  kSnapshotPart,   // an earlier part of a snapshot
  kNoPlan,         // now: nothing could be planned ahead
  kDepart,         // request id; ticket; most blocks
  kReserve,        // ticket; host blocks
  kReleaseTicket,  // ticket
  kAdopt,          // the request as it left the other engine; ticket; its host blocks there
  kLost,           // how many records were lost before this segment, since the last such entry
};

/// Changes when a record's layout changes: a program reads no other format than its own.
inline constexpr uint32_t kJournalFormat = 7;

/// The whole snapshot at the beginning of a segment, from its records. Nothing when the segment has no whole one: the
/// disk was full, or the process ended, while it was written. Throws Error when it begins with something else.
/// `foreign`: another format wrote it, and nothing of the segment can be read.
struct SegmentSnapshot {
  std::vector<std::byte> engine;  // what EngineArchive::Load takes
  double unix_offset = 0;
  bool foreign = false;
};
std::optional<SegmentSnapshot> ReadSnapshot(RecordReader& reader);

}  // namespace quire
