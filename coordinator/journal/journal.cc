#include "coordinator/journal/journal.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>

#include "comm/wire/messages.h"
#include "coordinator/journal/command_archive.h"
#include "coordinator/journal/engine_archive.h"

namespace quire {

namespace {

// Seconds until a refused write is tried again. The seconds double each time, because every try costs a snapshot.
constexpr double kFirstRetrySeconds = 5, kLastRetrySeconds = 600;

double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Journal::Journal(const std::string& directory, const JournalLimits& limits, const Engine& engine)
    : Journal(std::make_unique<RecordWriter>(directory, limits.total_bytes, limits.total_bytes), limits, engine) {}

Journal::Journal(std::unique_ptr<RecordSink> sink, const JournalLimits& limits, const Engine& engine)
    : engine_(engine),
      queue_(std::move(sink), limits.waiting_bytes),
      segment_bytes_(limits.segment_bytes),
      now_(SteadySeconds()) {
  WriteSnapshot();
}

void Journal::Append(uint8_t type) {
  if (losing_) return queue_.Lose();  // records after a gap could not be replayed
  losing_ = !queue_.Append(type, payload_.bytes());
  if (losing_) queue_.Flush();  // the segment ends with the records written until now
  bytes_since_snapshot_ += static_cast<int64_t>(payload_.bytes().size());
}

template <class... T>
void Journal::Write(JournalEntry entry, const T&... values) {
  payload_.Clear();
  payload_(values...);
  Append(static_cast<uint8_t>(entry));
}

void Journal::WriteSnapshot() {
  constexpr size_t kPart = size_t{32} << 20;
  payload_.Clear();
  payload_(UnixSeconds() - SteadySeconds(), kJournalFormat);
  EngineArchive::Save(payload_, engine_);
  auto rest = payload_.bytes();
  snapshot_bytes_ = static_cast<int64_t>(rest.size());
  for (; rest.size() > kPart; rest = rest.subspan(kPart)) {
    queue_.AppendToNewSegment(static_cast<uint8_t>(JournalEntry::kSnapshotPart), rest.first(kPart));
  }
  queue_.AppendToNewSegment(static_cast<uint8_t>(JournalEntry::kSnapshot), rest);
  bytes_since_snapshot_ = 0;
  const uint64_t lost = queue_.num_lost();
  if (lost > lost_told_) Write(JournalEntry::kLost, lost - std::exchange(lost_told_, lost));
  queue_.Flush();
}

std::optional<SegmentSnapshot> ReadSnapshot(RecordReader& reader) {
  SegmentSnapshot snapshot;
  std::vector<std::byte> bytes;
  for (;;) {
    const auto record = reader.Next();
    if (!record) return std::nullopt;
    const auto entry = static_cast<JournalEntry>(record->type);
    if (entry != JournalEntry::kSnapshot && entry != JournalEntry::kSnapshotPart)
      Fail("journal: a segment does not begin with a whole snapshot");
    bytes.insert(bytes.end(), record->payload.begin(), record->payload.end());
    if (entry == JournalEntry::kSnapshot) break;
  }
  ArchiveReader in(bytes);
  snapshot.unix_offset = in.Next<double>();
  snapshot.foreign = in.Next<uint32_t>() != kJournalFormat || in.Next<std::string>() != kBuildVersion;
  const size_t head = sizeof(double) + sizeof(uint32_t);
  snapshot.engine.assign(bytes.begin() + static_cast<ptrdiff_t>(head), bytes.end());
  return snapshot;
}

void Journal::BeforePlan(double now) {
  now_ = now;
  if (losing_) return GoOn();
  if (warned_ && queue_.idle() && queue_.error().empty()) {
    warned_ = false;
    retry_after_ = 0;
    spdlog::info("the step journal is written again; {} records were lost in all", queue_.num_lost());
  }
  // A large pool of KV blocks makes large snapshots. Then segments are longer, so that snapshots are at most half of
  // the journal. While many bytes wait for the disk, no snapshot is added.
  if (bytes_since_snapshot_ < std::max(segment_bytes_, snapshot_bytes_)) return;
  if (queue_.waiting_bytes() > queue_.max_bytes() / 4) return;
  queue_.StartSegment();
  WriteSnapshot();
}

/// Called while records are lost. Begins a new segment once the queued records are on the disk; after a refused write,
/// only when the pause before the next try is over (retry_at_).
void Journal::GoOn() {
  const std::string error = queue_.error();
  if (!std::exchange(warned_, true))
    spdlog::warn("the step journal loses records: {}; serving goes on",
                 error.empty() ? fmt::format("{} bytes wait for the disk", queue_.waiting_bytes()) : error);
  if (!queue_.idle()) return;
  if (!error.empty() && retry_at_ == 0) {
    retry_after_ = std::clamp(2 * retry_after_, kFirstRetrySeconds, kLastRetrySeconds);
    retry_at_ = now_ + retry_after_;
  }
  if (now_ < retry_at_) return;
  retry_at_ = 0;
  losing_ = false;
  queue_.Restart();
  WriteSnapshot();
}

void Journal::OnDecision(const Decision& decision) { Write(JournalEntry::kDecision, now_, decision); }

void Journal::OnCommand(const Command& command, const CommandOutcome& outcome) {
  if (const auto* submit = std::get_if<command::Submit>(&command))
    now_ = std::max(now_, submit->request->arrival_seconds);
  if (const auto* expire = std::get_if<command::Expire>(&command)) now_ = expire->now;
  payload_.Clear();
  SaveCommand(payload_, command);
  payload_(RecordOf(outcome));
  Append(TypeOf(command));
  const bool ends_step = std::holds_alternative<command::Commit>(command);
  if (ends_step && !losing_) queue_.Flush();  // flushed decisions survive the end of this process
}

}  // namespace quire
