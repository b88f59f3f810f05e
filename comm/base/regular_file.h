#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <span>
#include <string>

namespace quire {

/// A regular file, open for reading. The one way in which files that others may have put there are opened: nothing
/// waits (a pipe in a file's place is refused at once), no terminal is taken, and what is checked is what was opened.
class RegularFile {
 public:
  enum class Links { kFollowed, kRefused };  // when the path's last part is a symbolic link

  /// Throws Error with the path: it is missing, may not be read, or is no regular file.
  static RegularFile Open(const std::string& path, Links links);
  ~RegularFile();
  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&&) = delete;

  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  /// As of when it was opened.
  const struct stat& info() const { return info_; }
  size_t size() const { return static_cast<size_t>(info_.st_size); }

  /// The path of what was opened, without links. Throws Error where the system does not tell (no /proc).
  std::string RealPath() const;

  /// Reads on into `bytes`; less than all of them only at the file's end, 0 there. Throws Error when it cannot.
  size_t Read(std::span<char> bytes) const;
  /// The rest of the file; throws Error when it is empty or larger than max_bytes.
  std::string ReadAll(size_t max_bytes) const;

 private:
  RegularFile(std::string path, int fd, const struct stat& info);

  std::string path_;
  int fd_ = -1;
  struct stat info_;
};

}  // namespace quire
