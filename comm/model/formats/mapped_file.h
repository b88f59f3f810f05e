#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "comm/base/regular_file.h"

namespace quire {

/// The bytes of a regular file in memory, either mapped read-only or copied.
///
/// With a mapping, the page cache supplies pages when they are touched, and all processes that map the file share them.
/// The size is read once, at opening. If the file is truncated later or its disk fails, touching a missing page ends
/// the process (comm/model/formats/mapping_errors.h).
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  explicit MappedFile(const RegularFile& file);
  /// Copies the file into memory, so that later changes of the file do no harm. Throws Error when the file is larger
  /// than `most_bytes`, or becomes shorter during the copy.
  MappedFile(const RegularFile& file, size_t most_bytes);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  /// Unmaps the touched pages of a mapped file. The pages stay in the page cache, and a later read maps them again.
  /// Does nothing for a copied file.
  void ReleasePages() const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  bool is_copy_ = false;
};

/// Reads a small text file. Throws Error when it is missing, empty, larger than max_bytes, or not a regular file.
std::string ReadTextFile(const std::string& path, size_t max_bytes);

/// Writes a file and replaces an earlier file of this name. Throws Error when writing fails.
void WriteTextFile(const std::string& path, const std::string& text);

}  // namespace quire
