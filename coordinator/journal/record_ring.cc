#include "coordinator/journal/record_ring.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string_view>
#include <utility>

#include "comm/base/error.h"

namespace quire {

namespace {

constexpr std::string_view kMagic = "QUIREJ1\n";
constexpr size_t kSegmentHeadBytes = 20;
constexpr size_t kRecordHeadBytes = 9;
constexpr size_t kBufferBytes = size_t{64} << 10;

using Bytes = std::span<const std::byte>;

void StoreLe(std::span<std::byte> to, uint64_t value) {
  for (std::byte& byte : to) {
    byte = static_cast<std::byte>(value & 0xff);
    value >>= 8;
  }
}

uint64_t LoadLe(Bytes from) {
  uint64_t value = 0;
  for (size_t i = from.size(); i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(from[i]);
  return value;
}

uint32_t Crc(uint32_t crc, Bytes bytes) {
  if (bytes.empty()) return crc;  // zlib treats a null pointer as a request for the initial value
  return static_cast<uint32_t>(::crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::array<std::byte, kSegmentHeadBytes> SegmentHead(uint64_t number) {
  std::array<std::byte, kSegmentHeadBytes> head{};
  const std::span<std::byte> all(head);
  std::memcpy(head.data(), kMagic.data(), kMagic.size());
  StoreLe(all.subspan(8, 8), number);
  StoreLe(all.subspan(16, 4), Crc(0, all.first(16)));
  return head;
}

std::string SegmentName(uint64_t number) { return fmt::format("segment-{:012}.qj", number); }

/// Returns the number in a segment's file name; nullopt for other names.
std::optional<uint64_t> SegmentNumber(const std::string& name) {
  constexpr std::string_view kPrefix = "segment-";
  uint64_t number = 0;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const auto parsed = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), number);
  if (parsed.ec != std::errc() || SegmentName(number) != name) return std::nullopt;
  return number;
}

/// Returns the size in bytes of every segment, by the segment's number. Skips segments that vanish meanwhile.
std::map<uint64_t, int64_t> ListSegments(const std::string& directory) {
  std::map<uint64_t, int64_t> segments;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::optional<uint64_t> number = SegmentNumber(entry->path().filename().string());
    struct stat info {};
    const bool regular = number && ::lstat(entry->path().c_str(), &info) == 0 && S_ISREG(info.st_mode);
    if (regular) segments.emplace(*number, info.st_size);
  }
  if (error) Fail("{}: cannot list the journal: {}; name a directory that can be read", directory, error.message());
  return segments;
}

}  // namespace

RecordWriter::RecordWriter(std::string directory, int64_t max_segment_bytes, int64_t max_total_bytes) : RecordWriter() {
  // If a statement below throws, the destructor closes open descriptors, because the delegated constructor is done.
  directory_ = std::move(directory);
  max_segment_bytes_ = max_segment_bytes;
  max_total_bytes_ = max_total_bytes;
  if (max_segment_bytes <= 0 || max_total_bytes < max_segment_bytes)
    FailSettings("{}: a journal of {} bytes in segments of {} bytes: the total must hold at least one segment",
                 directory_, max_total_bytes, max_segment_bytes);
  if (::mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST)
    FailSettings("{}: cannot make the journal's directory: {}; its parent must exist and be writable", directory_,
                 std::strerror(errno));
  directory_fd_ = ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory_fd_ < 0)
    FailSettings("{}: cannot open the journal's directory: {}; name a directory that this user owns", directory_,
                 std::strerror(errno));
  lock_ = ::openat(directory_fd_, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_ < 0)
    FailSettings("{}/lock: cannot open: {}; the journal's directory must be writable", directory_,
                 std::strerror(errno));
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      Fail("{}: another server writes its journal here; give each server a directory of its own", directory_);
    Fail("{}/lock: cannot lock: {}; name a directory on a file system that has locks", directory_,
         std::strerror(errno));
  }
  closed_ = ListSegments(directory_);
  for (const auto& [number, bytes] : closed_) closed_bytes_ += bytes;
  segment_ = closed_.empty() ? 0 : closed_.rbegin()->first;
  if (segment_ == std::numeric_limits<uint64_t>::max())
    Fail("{}/{}: no number is left after this segment's; move it away", directory_, SegmentName(segment_));
  buffer_.reserve(kBufferBytes);
  StartSegment();
  if (!error_.empty()) throw Error(error_);
}

RecordWriter::~RecordWriter() {
  Flush();
  for (const int fd : {file_, lock_, directory_fd_})
    if (fd >= 0) ::close(fd);
}

void RecordWriter::Append(uint8_t type, std::span<const std::byte> payload) {
  if (!error_.empty()) return;
  if (payload.size() > kMaxPayloadBytes) {
    Flush();  // writes the complete records before this one
    if (!error_.empty()) return;
    TurnOff(SegmentName(segment_),
            fmt::format("a record of {} bytes, at most {} are allowed", payload.size(), kMaxPayloadBytes));
    return;
  }
  std::array<std::byte, kRecordHeadBytes> head{};
  const std::span<std::byte> all(head);
  StoreLe(all.first(4), payload.size());
  StoreLe(all.subspan(4, 1), type);
  StoreLe(all.subspan(5, 4), Crc(Crc(0, all.subspan(4, 1)), payload));
  segment_bytes_ += static_cast<int64_t>(head.size() + payload.size());
  Put(head);
  Put(payload);
}

void RecordWriter::StartSegment() {
  Flush();
  CloseSegment();
  error_.clear();
  ++segment_;
  segment_bytes_ = static_cast<int64_t>(kSegmentHeadBytes);
  const std::string name = SegmentName(segment_);
  file_ = ::openat(directory_fd_, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file_ < 0) return TurnOff(name, fmt::format("cannot create: {}; make room there", std::strerror(errno)));
  WriteAll(SegmentHead(segment_));
}

void RecordWriter::CloseSegment() {
  if (file_ < 0) return;
  ::close(std::exchange(file_, -1));
  closed_.emplace(segment_, segment_bytes_);
  closed_bytes_ += segment_bytes_;
}

void RecordWriter::Flush() {
  WriteAll(buffer_);
  buffer_.clear();
}

void RecordWriter::Put(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) Flush();
  if (bytes.size() > kBufferBytes) {
    WriteAll(bytes);
  } else if (error_.empty()) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void RecordWriter::WriteAll(std::span<const std::byte> bytes) {
  if (bytes.empty() || !error_.empty()) return;
  DeleteOldest();
  while (!bytes.empty() && error_.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written > 0) {
      bytes = bytes.subspan(static_cast<size_t>(written));
    } else if (written == 0 || errno != EINTR) {
      TurnOff(SegmentName(segment_),
              fmt::format("cannot write: {}; make room there", std::strerror(written == 0 ? ENOSPC : errno)));
    }
  }
}

void RecordWriter::DeleteOldest() {
  while (!closed_.empty() && closed_bytes_ + segment_bytes_ > max_total_bytes_) {
    const auto oldest = closed_.begin();
    const std::string name = SegmentName(oldest->first);
    if (::unlinkat(directory_fd_, name.c_str(), 0) != 0 && errno != ENOENT)
      return TurnOff(name, fmt::format("cannot delete: {}; make the directory writable", std::strerror(errno)));
    closed_bytes_ -= oldest->second;
    closed_.erase(oldest);
  }
}

void RecordWriter::TurnOff(const std::string& name, const std::string& reason) {
  error_ = fmt::format("{}/{}: {}", directory_, name, reason);
  buffer_.clear();
  CloseSegment();
}

RecordReader::RecordReader(std::string directory) : directory_(std::move(directory)), file_(nullptr, &std::fclose) {
  for (const auto& [number, bytes] : ListSegments(directory_)) segments_.push_back(number);
}

std::vector<uint64_t> RecordReader::Segments() const { return segments_; }

void RecordReader::Open(uint64_t segment) {
  file_.reset();
  path_ = directory_ + "/" + SegmentName(segment);
  size_ = offset_ = 0;
  torn_ = false;
  // O_NONBLOCK: opening must not block on a pipe with that name.
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0)
    Fail("{}: cannot open: {}; the journal may have dropped it: list the segments again", path_, std::strerror(errno));
  file_.reset(::fdopen(fd, "rb"));
  struct stat info {};
  if (!file_) {
    ::close(fd);
    Fail("{}: cannot open: out of memory", path_);
  }
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) Fail("{}: not a regular file; move it away", path_);
  std::array<std::byte, kSegmentHeadBytes> head{};
  const Bytes all(head);
  if (!Read(head) || LoadLe(all.subspan(16)) != Crc(0, all.first(16))) {
    torn_ = true;
    return;
  }
  if (std::memcmp(head.data(), kMagic.data(), kMagic.size()) != 0)
    Fail("{}: the format is not this version's; read it with the version of Quire that wrote it", path_);
  if (LoadLe(all.subspan(8, 8)) != segment)
    Fail("{}: the header says {}; give the file its name back", path_, SegmentName(LoadLe(all.subspan(8, 8))));
  size_ = info.st_size;  // set only now: after an Error above, Next() returns nullopt
  offset_ = static_cast<int64_t>(head.size());
}

std::optional<Record> RecordReader::Next() {
  if (!file_ || torn_ || offset_ == size_) return std::nullopt;
  torn_ = true;  // until the record proves to be complete
  const uint64_t left = static_cast<uint64_t>(size_ - offset_);
  std::array<std::byte, kRecordHeadBytes> head{};
  const Bytes all(head);
  if (left < head.size() || !Read(head)) return std::nullopt;
  const uint64_t length = LoadLe(all.first(4));
  if (length > std::min<uint64_t>(kMaxPayloadBytes, left - head.size())) return std::nullopt;
  Record record{std::to_integer<uint8_t>(head[4]), std::vector<std::byte>(length)};
  if (!Read(record.payload)) return std::nullopt;
  if (LoadLe(all.subspan(5)) != Crc(Crc(0, all.subspan(4, 1)), record.payload)) return std::nullopt;
  torn_ = false;
  offset_ += static_cast<int64_t>(head.size() + length);
  return record;
}

/// Reads the file's next bytes. Returns false when the file ends before all are read. Throws Error when reading fails.
bool RecordReader::Read(std::span<std::byte> bytes) {
  if (bytes.empty() || std::fread(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size()) return true;
  if (std::ferror(file_.get()) != 0)
    Fail("{}: cannot read: {}; copy the file from a sound disk", path_, std::strerror(errno));
  return false;
}

}  // namespace quire
