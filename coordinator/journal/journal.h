#pragma once

#include <string>

#include "coordinator/core/engine.h"
#include "coordinator/journal/archive.h"
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
};

/// Changes when a record's layout changes: a program reads no other format than its own.
inline constexpr uint32_t kJournalFormat = 4;

struct JournalLimits {
  int64_t segment_bytes = int64_t{16} << 20;
  int64_t total_bytes = int64_t{256} << 20;
};

/// The step journal: writes down everything that goes into an engine and everything it decides, so that a request's
/// story can be told and the scheduler's run repeated. It holds prompts and answers: the directory is for the owner's
/// eyes only. Belongs to the engine's thread. When the disk refuses a write the journal ends with a warning; serving
/// goes on.
class Journal : public EngineObserver {
 public:
  /// Throws Error when the directory cannot be used. `engine` outlives the journal's last call.
  Journal(const std::string& directory, const JournalLimits& limits, const Engine& engine);

  void OnDecision(const Decision& decision) override;
  void BeforePlan(double now) override;
  void OnSubmit(const Request& request, bool accepted) override;
  void OnCancel(RequestId id) override;
  void OnPlan(double now, const StepPlan& plan) override;
  void OnNoPlan(double now) override;
  void OnCommit(const std::vector<SampledToken>& tokens, StepTimes times,
                const std::vector<StoppedChoice>& stopped) override;
  void OnExpire(double now) override;
  void OnEpoch(EpochId epoch, const PoolSizes& pools) override;
  void OnSwapSpeed(double seconds_per_block) override;
  void OnFlush() override;
  void OnPin(const std::string& salt, const std::vector<TokenId>& tokens, double expires_seconds) override;
  void OnUnpin(uint64_t pin) override;
  void OnDepart(RequestId id, uint64_t ticket, int max_blocks) override;
  void OnReserve(uint64_t ticket, int num_host_blocks) override;
  void OnReleaseTicket(uint64_t ticket) override;
  void OnAdopt(const Request& request, uint64_t ticket, std::span<const BlockId> host_blocks) override;

 private:
  template <class... T>
  void Write(JournalEntry entry, const T&... values);
  void Append(JournalEntry entry);
  void WriteSnapshot();

  const Engine& engine_;
  RecordWriter writer_;
  ArchiveWriter payload_;
  int64_t segment_bytes_;
  int64_t bytes_since_snapshot_ = 0, snapshot_bytes_ = 0;
  double now_ = 0;
  bool warned_ = false;
};

/// The whole snapshot at the beginning of a segment, from its records; throws Error when there is none.
/// `foreign`: another format wrote it, and nothing of the segment can be read.
struct SegmentSnapshot {
  std::vector<std::byte> engine;  // what EngineArchive::Load takes
  double unix_offset = 0;
  bool foreign = false;
};
SegmentSnapshot ReadSnapshot(RecordReader& reader);

}  // namespace quire
