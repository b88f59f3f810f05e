#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/journal/record_sink.h"

namespace quire {

// A ring of append-only files "segment-<12 digits>.qj" in one directory, beside a file "lock". Little-endian:
//   segment: "QUIREJ1\n", u64 segment number, u32 CRC-32 of these 16 bytes; then records
//   record:  u32 payload bytes, u8 type, u32 CRC-32 of type and payload; then the payload
inline constexpr size_t kMaxPayloadBytes = size_t{64} << 20;

/// Writes a ring of segments. The constructor throws Error; after it nothing does: when the system refuses a write
/// (a full disk; RLIMIT_FSIZE if SIGXFSZ is ignored) the writer is off until the next segment, and error() says why.
/// What was flushed survives the end of the process, not that of the machine. Belongs to one thread.
class RecordWriter : public RecordSink {
 public:
  /// Makes the directory (mode 0700; its parent must exist), locks it, and begins a segment after the highest one.
  RecordWriter(std::string directory, int64_t max_segment_bytes, int64_t max_total_bytes);
  ~RecordWriter() override;
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  /// Adds a record to the current segment, whatever the segment's size: the owner watches segment_full().
  void Append(uint8_t type, std::span<const std::byte> payload) override;
  /// The current segment has reached max_segment_bytes. False while the writer is off.
  bool segment_full() const { return error_.empty() && segment_bytes_ >= max_segment_bytes_; }
  /// Closes the current segment and begins the next, with which a writer that was off is on again. Here and before
  /// later writes the oldest segments are deleted while all together exceed max_total_bytes; the current one never is,
  /// so only it alone can exceed that.
  void StartSegment() override;
  /// Hands what is buffered (up to 64 KiB) to the system.
  void Flush() override;

  /// Why the writer is off; empty while it is on.
  const std::string& error() const override { return error_; }
  /// Number of the current segment.
  uint64_t segment() const { return segment_; }

 private:
  RecordWriter() = default;
  void Put(std::span<const std::byte> bytes);
  void WriteAll(std::span<const std::byte> bytes);
  void DeleteOldest();
  void CloseSegment();
  void TurnOff(const std::string& name, const std::string& reason);

  std::string directory_, error_;
  int64_t max_segment_bytes_ = 0, max_total_bytes_ = 0;
  int directory_fd_ = -1, lock_ = -1, file_ = -1;
  std::map<uint64_t, int64_t> closed_;  // bytes of the other segments
  int64_t closed_bytes_ = 0;
  uint64_t segment_ = 0;
  int64_t segment_bytes_ = 0;  // with those still in buffer_
  std::vector<std::byte> buffer_;
};

struct Record {
  uint8_t type = 0;
  std::vector<std::byte> payload;
};

/// Reads a ring's segments, also while a writer has them: takes no lock. Every other file is ignored.
class RecordReader {
 public:
  /// Throws Error when the directory cannot be listed.
  explicit RecordReader(std::string directory);

  /// Numbers of the segments that were there at construction, rising.
  std::vector<uint64_t> Segments() const;
  /// Begins to read a segment, up to the size it has now. Throws Error when there is no such segment to read.
  void Open(uint64_t segment);
  /// The open segment's next record; nothing at its end and from the first record on that is not whole.
  std::optional<Record> Next();
  /// Next() gave nothing because of half a record or damage, not because the segment's end was reached.
  bool torn() const { return torn_; }
  /// Bytes of the open segment that were found whole: where the next record, or the torn one, begins.
  int64_t offset() const { return offset_; }

 private:
  bool Read(std::span<std::byte> bytes);

  std::string directory_, path_;
  std::vector<uint64_t> segments_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  int64_t size_ = 0, offset_ = 0;
  bool torn_ = false;
};

}  // namespace quire
