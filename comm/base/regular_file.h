#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <span>
#include <string>

namespace quire {

/// A regular file, open for reading. Use this class for files that other users may have placed. Opening never waits (a
/// pipe is refused) and never takes a controlling terminal. The checks apply to the
/// opened file, not to its path.
class RegularFile {
 public:
  enum class Links { kFollowed, kRefused };  // whether the path's last part may be a symbolic link

  /// Opens the file at `path`. Throws Error with the path when it is missing, is not readable, or is not a regular
  /// file.
  static RegularFile Open(const std::string& path, Links links);
  ~RegularFile();
  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&&) = delete;

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  /// Returns the file's status at the time of opening.
  const struct stat& info() const { return info_; }
  size_t size() const { return static_cast<size_t>(info_.st_size); }

  /// Returns the path of the opened file with all links resolved. Throws Error when the system cannot tell the path (no
  /// /proc).
  std::string RealPath() const;

  /// Reads the next bytes of the file and returns their count. The count is less than `bytes.size()` only at the file's
  /// end. Throws Error when reading fails.
  size_t Read(std::span<char> bytes) const;
  /// Returns the bytes from the current position to the end of the file. Throws Error when there are none, or when the
  /// file is larger than max_bytes.
  std::string ReadAll(size_t max_bytes) const;

 private:
  RegularFile(std::string path, int fd, const struct stat& info);

  std::string path_;
  int fd_ = -1;
  struct stat info_;
};

}  // namespace quire
