#pragma once

#include <string>

#include "coordinator/core/engine/engine.h"
#include "coordinator/journal/archive.h"
#include "coordinator/journal/journal_entry.h"
#include "coordinator/journal/record_queue.h"
#include "coordinator/journal/record_ring.h"

namespace quire {

struct JournalLimits {
  int64_t segment_bytes = int64_t{16} << 20;
  int64_t total_bytes = int64_t{256} << 20;
  size_t waiting_bytes = size_t{64} << 20;  // limit of the records in memory that wait for the disk
};

/// The state of the journal, for reports. `error` is empty while records are written.
struct JournalHealth {
  size_t waiting_bytes = 0;
  uint64_t lost_records = 0;
  std::string error;
};

/// The step journal, which records every input of an engine and every decision, so that requests can be explained and
/// the scheduler's run can be repeated. The journal contains prompts and answers, so only its owner can read the
/// directory. Belongs to the engine's thread, which never waits for the disk. Records that the disk refuses, or takes
/// too slowly, are lost, with a warning and a kLost record. The journal then continues with a snapshot in a new
/// segment.
class Journal : public EngineObserver {
 public:
  /// Begins a journal with a snapshot of the engine. Throws Error when the directory cannot be used. `engine` must
  /// outlive the last call.
  Journal(const std::string& directory, const JournalLimits& limits, const Engine& engine);
  /// Writes the journal to `sink` instead of a directory, for tests.
  Journal(std::unique_ptr<RecordSink> sink, const JournalLimits& limits, const Engine& engine);

  /// Returns the state of the journal. Any thread may call it.
  JournalHealth health() const { return {queue_.waiting_bytes(), queue_.num_lost(), queue_.error()}; }

  void OnDecision(const Decision& decision) override;
  void BeforePlan(double now) override;
  void OnCommand(const Command& command, const CommandOutcome& outcome) override;

 private:
  template <class... T>
  void Write(JournalEntry entry, const T&... values);
  void Append(uint8_t type);
  void WriteSnapshot();
  void GoOn();

  const Engine& engine_;
  RecordQueue queue_;
  ArchiveWriter payload_;
  int64_t segment_bytes_;
  int64_t bytes_since_snapshot_ = 0, snapshot_bytes_ = 0;
  double now_ = 0;
  bool losing_ = false;                    // records are lost until the next segment begins
  bool warned_ = false;                    // an outage was reported and may still last
  uint64_t lost_told_ = 0;                 // lost records that kLost records have reported
  double retry_at_ = 0, retry_after_ = 0;  // next try and pause before it; engine's clock, in seconds
};

}  // namespace quire
