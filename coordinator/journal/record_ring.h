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

// A ring of append-only files "segment-<12 digits>.qj" in one directory, with a file "lock". Little-endian:
//   segment: "QUIREJ1\n", u64 segment number, u32 CRC-32 of these 16 bytes; then records
//   record:  u32 payload bytes, u8 type, u32 CRC-32 of type and payload; then the payload
inline constexpr size_t kMaxPayloadBytes = size_t{64} << 20;

/// Writes a ring of segments. Only the constructor throws Error. If the system refuses a write later (a full disk, or
/// RLIMIT_FSIZE with SIGXFSZ ignored), the writer is off: it drops records until the next segment, and error() gives
/// the reason. Flushed records survive the end of the process, but not a crash of the machine. Belongs to one thread.
class RecordWriter : public RecordSink {
 public:
  /// Creates the directory (mode 0700; its parent must exist), locks it and begins a segment after the highest one. A
  /// segment is full at max_segment_bytes; all segments take at most max_total_bytes.
  RecordWriter(std::string directory, int64_t max_segment_bytes, int64_t max_total_bytes);
  ~RecordWriter() override;
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  /// Adds a record to the current segment, whatever its size: the owner checks segment_full().
  void Append(uint8_t type, std::span<const std::byte> payload) override;
  /// True when the current segment has reached max_segment_bytes; false while the writer is off.
  bool segment_full() const { return error_.empty() && segment_bytes_ >= max_segment_bytes_; }
  /// Closes the current segment and begins the next one, in which a writer that was off writes again. While the total
  /// size exceeds max_total_bytes, the oldest segments are deleted, by this function and before later writes. The
  /// current segment is never deleted, so the total exceeds the limit only if the current segment alone does.
  void StartSegment() override;
  /// Passes buffered bytes (up to 64 KiB) to the operating system.
  void Flush() override;

  /// Returns the reason why the writer is off; empty while it is on.
  const std::string& error() const override { return error_; }
  /// Returns the number of the current segment.
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
  std::map<uint64_t, int64_t> closed_;  // sizes of the closed segments, by segment number
  int64_t closed_bytes_ = 0;
  uint64_t segment_ = 0;
  int64_t segment_bytes_ = 0;  // bytes in buffer_ included
  std::vector<std::byte> buffer_;
};

struct Record {
  uint8_t type = 0;
  std::vector<std::byte> payload;
};

/// Reads the segments of a ring, without a lock, even while a writer appends. Ignores other files.
class RecordReader {
 public:
  /// Lists the segments. Throws Error when the directory cannot be listed.
  explicit RecordReader(std::string directory);

  /// Returns the numbers of the segments that existed at construction, ascending.
  std::vector<uint64_t> Segments() const;
  /// Starts reading a segment up to its present size. Throws Error when the segment does not exist or cannot be read.
  void Open(uint64_t segment);
  /// Returns the open segment's next record; nullopt at the segment's end, or once a record is incomplete or damaged.
  std::optional<Record> Next();
  /// True when the segment's header, or the record at which Next() has stopped, is incomplete or damaged.
  bool torn() const { return torn_; }
  /// Returns the offset in the segment at which the next, or the damaged, record begins.
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
