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

/// Kinds of records. Every segment begins with a snapshot; what follows are the engine's commands in order, and what it
/// decided. Payloads are archives (archive.h) of what the comment says.
enum class JournalEntry : uint8_t {
  kSnapshot = 1,   // the last part of: seconds between the engine's clock and 1970; kJournalFormat; the engine
  kSnapshotPart,   // an earlier part of a snapshot
  kDecision,       // now; the decision
  kLost,           // how many records were lost before this segment, since the last such entry
  kCommands = 32,  // and above, by the command's place in Command: the command; what came of it (command_archive.h)
};

/// The type of a command's record.
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

/// Changes when a record's layout or a type's number changes: a program reads no other format than its own.
inline constexpr uint32_t kJournalFormat = 15;

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
