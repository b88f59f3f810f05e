#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "coordinator/journal/record_sink.h"

namespace quire {

/// A queue of records for the disk. No call waits for the disk, because a separate thread writes the records. A record
/// is lost, and counted, if the queue is full or the sink has an error. Only one thread may call the methods that are
/// not const; any thread may call the const methods.
class RecordQueue {
 public:
  /// Starts the writing thread. max_bytes: the most payload bytes in the queue.
  RecordQueue(std::unique_ptr<RecordSink> sink, size_t max_bytes);
  /// Waits until the queued records are written, but at most 5 s. After 5 s the writing thread goes on alone.
  ~RecordQueue();
  RecordQueue(const RecordQueue&) = delete;
  RecordQueue& operator=(const RecordQueue&) = delete;

  /// Queues a record. Returns false when the record is lost.
  bool Append(uint8_t type, std::span<const std::byte> payload);
  /// Counts a record as lost without queuing it.
  void Lose();
  /// Queues a record of a new segment's snapshot, even if the queue is full. Segments begin only while the queue is
  /// short.
  void AppendToNewSegment(uint8_t type, std::span<const std::byte> payload);
  void StartSegment();
  /// Begins a segment after records were lost, and accepts records again even if the sink had an error before. Requires
  /// idle().
  void Restart();
  /// Makes the writing thread pass everything queued to the operating system soon.
  void Flush();

  /// True when no record is queued or being written.
  bool idle() const;
  /// Returns the payload bytes that wait for the disk.
  size_t waiting_bytes() const;
  size_t max_bytes() const;
  /// Returns the number of records that are lost, or that a failed write may have lost.
  uint64_t num_lost() const;
  /// Returns the reason why the sink rejects records; empty while the sink accepts records.
  std::string error() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the writing thread, which may outlive this object
};

}  // namespace quire
