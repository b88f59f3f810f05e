#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <variant>
#include <vector>

#include "coordinator/core/command.h"
#include "coordinator/journal/record_ring.h"

namespace quire {

/// Kinds of records. Every segment begins with a snapshot. The engine's commands and decisions follow in order.
/// Payloads are archives (archive.h) of the values in the comments.
enum class JournalEntry : uint8_t {
  kSnapshot = 1,   // last part of a snapshot: seconds from the engine's clock to Unix time; kJournalFormat; engine
  kSnapshotPart,   // an earlier part of a snapshot
  kDecision,       // now; the decision
  kLost,           // the number of records lost before this segment since the last kLost
  kCommands = 32,  // plus the command's index in Command; payload: the command, its OutcomeRecord (command_archive.h)
};

/// Returns the record type of a command.
inline uint8_t TypeOf(const Command& command) {
  return static_cast<uint8_t>(static_cast<size_t>(JournalEntry::kCommands) + command.index());
}
template <class C, size_t number = 0>
constexpr uint8_t TypeOf() {
  if constexpr (std::is_same_v<std::variant_alternative_t<number, Command>, C>)
    return static_cast<uint8_t>(static_cast<size_t>(JournalEntry::kCommands) + number);
  else
    return TypeOf<C, number + 1>();
}

/// The version of the journal's format. Raise the version when a record's layout or the number of a type changes,
/// because a program reads only its own format.
inline constexpr uint32_t kJournalFormat = 23;

/// The complete snapshot at the beginning of a segment. ReadSnapshot returns nullopt when the snapshot is incomplete
/// because the disk was full or the process ended during the write. Throws Error when the segment begins with something
/// else. `foreign`: another format or program version wrote the segment, so it cannot be read.
struct SegmentSnapshot {
  std::vector<std::byte> engine;  // input of EngineArchive::Load
  double unix_offset = 0;
  bool foreign = false;
};
std::optional<SegmentSnapshot> ReadSnapshot(RecordReader& reader);

}  // namespace quire
