#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "comm/base/descriptor.h"

namespace quire {

/// A directory that only this server uses. Other users may not read the directory (mode 0700, files 0600), a lock
/// excludes other servers, and links are not followed. Names are plain names without a slash. A method that fails
/// throws Error with the path and the system's reason. All methods wait until the disk is done.
class StoreDirectory {
 public:
  /// Opens the directory, or creates it. Refuses a link, another user's directory, a directory that other users may
  /// enter, and a directory that another server uses.
  explicit StoreDirectory(const std::string& path);

  std::vector<std::string> Names() const;
  bool Has(const std::string& name) const;
  int64_t BytesOf(const std::string& name) const;  // size of the file; 0: there is no such file

  Descriptor OpenToRead(const std::string& name) const;
  /// Opens a file to write at its end; creates the file when there is none.
  Descriptor OpenToAppend(const std::string& name) const;
  /// Creates a file. Throws if the name already exists.
  Descriptor Create(const std::string& name) const;
  std::string ReadWhole(const std::string& name, size_t max_bytes) const;

  /// Replaces a file's content in one step: readers see all of the old content or all of the new content, also after a
  /// loss of power.
  void WriteWhole(const std::string& name, std::string_view content) const;
  /// Renames a file whose content is on the disk. Returns once the new name is on the disk, too.
  void Rename(const std::string& from, const std::string& to) const;
  /// Removes the file, if it exists.
  void Remove(const std::string& name) const;
  /// Truncates the file, which frees its disk space even while it is open, and removes the file, if it exists.
  void RemoveContent(const std::string& name) const;

  const std::string& path() const { return path_; }

 private:
  Descriptor Open(const std::string& name, int flags) const;
  void Sync() const;

  std::string path_;
  Descriptor directory_, lock_;
};

/// The suffix of a file that is still being written. Such a file is a leftover when the server starts.
inline constexpr std::string_view kUnfinishedEnd = ".tmp";

/// Writes all bytes, or throws Error with `what` and the system's reason.
void WriteFully(int descriptor, std::string_view bytes, const std::string& what);
/// Waits until the file's content is on the disk. Throws Error with `what` and the system's reason.
void SyncContent(int descriptor, const std::string& what);
/// Cuts a file of lines after its last line end. Returns how many lines are left. Throws Error with `what` and the
/// system's reason.
int64_t CutAtLastLine(int descriptor, const std::string& what);
/// Cuts a file to its first `bytes` bytes. Ignores a failure, which leaves the file as it was.
void CutTo(int descriptor, int64_t bytes);
/// Reads `count` bytes from `offset` on. Returns fewer bytes only at the end of the file. Throws Error with `what` and
/// the system's reason.
std::string ReadAt(int descriptor, off_t offset, size_t count, const std::string& what);

}  // namespace quire
