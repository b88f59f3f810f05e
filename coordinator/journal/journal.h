#pragma once

#include <string>

#include "coordinator/core/engine.h"
#include "coordinator/journal/archive.h"
#include "coordinator/journal/journal_entry.h"
#include "coordinator/journal/record_queue.h"
#include "coordinator/journal/record_ring.h"

namespace quire {

struct JournalLimits {
  int64_t segment_bytes = int64_t{16} << 20;
  int64_t total_bytes = int64_t{256} << 20;
  size_t waiting_bytes = size_t{64} << 20;  // in memory, while the disk takes nothing
};

/// How the journal does, for the operator. `error` is empty while records are written.
struct JournalHealth {
  size_t waiting_bytes = 0;
  uint64_t lost_records = 0;
  std::string error;
};

/// The step journal: writes down everything that goes into an engine and everything it decides, so that a request's
/// story can be told and the scheduler's run repeated. It holds prompts and answers: the directory is for the owner's
/// eyes only. Belongs to the engine's thread, which never waits for the disk: what the disk does not take in time, or
/// refuses, is lost, with a warning and a record that says so, and the journal goes on with a snapshot in a new
/// segment.
class Journal : public EngineObserver {
 public:
  /// Throws Error when the directory cannot be used. `engine` outlives the journal's last call.
  Journal(const std::string& directory, const JournalLimits& limits, const Engine& engine);
  /// The same with another end of the line.
  Journal(std::unique_ptr<RecordSink> sink, const JournalLimits& limits, const Engine& engine);

  /// From any thread.
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
  bool warned_ = false;                    // of an outage that is not known to be over
  uint64_t lost_told_ = 0;                 // records that a kLost has told of
  double retry_at_ = 0, retry_after_ = 0;  // on the engine's clock; seconds
};

}  // namespace quire
