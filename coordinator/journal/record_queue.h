#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "coordinator/journal/record_sink.h"

namespace quire {

/// Records on their way to the disk. No call waits for it: what is appended waits in memory, a thread of the queue's
/// own writes it, and what finds no room, or a sink with an error, is lost and counted. Methods belong to one thread,
/// but for the const ones, which any may call.
class RecordQueue {
 public:
  /// max_bytes bounds the payloads that wait.
  RecordQueue(std::unique_ptr<RecordSink> sink, size_t max_bytes);
  /// Writes what waits. When that takes longer than 5 s it is left to a thread that nobody waits for.
  ~RecordQueue();
  RecordQueue(const RecordQueue&) = delete;
  RecordQueue& operator=(const RecordQueue&) = delete;

  /// False when the record is lost.
  bool Append(uint8_t type, std::span<const std::byte> payload);
  /// Counts a record as lost that is not worth appending.
  void Lose();
  /// Takes the record however much waits: for the snapshot of a new segment, which is begun while little does.
  void AppendToNewSegment(uint8_t type, std::span<const std::byte> payload);
  void StartSegment();
  /// Begins a segment after records were lost, and takes records again whatever the sink said last. The queue is idle.
  void Restart();
  /// What was appended goes to the system soon.
  void Flush();

  /// Nothing waits and nothing is being written.
  bool idle() const;
  /// Bytes that wait for the disk.
  size_t waiting_bytes() const;
  size_t max_bytes() const;
  /// Records that never got to the disk, and those of which it is not known.
  uint64_t num_lost() const;
  /// Why the sink takes no records; empty while it does.
  std::string error() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // the writing thread's, too, which may outlive this object
};

}  // namespace quire
