#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "comm/base/regular_file.h"

namespace quire {

/// A file mapped read-only into memory. Pages come from the page cache when they are touched and are shared by
/// every process that maps the file. Only regular files; the size is taken once, when the file is opened. Where the
/// file is cut short meanwhile, or its disk fails, touching it ends the process (comm/model/formats/mapping_errors.h).
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  explicit MappedFile(const RegularFile& file);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  /// Lets go of the pages that were touched: they stay in the page cache only, and come back when they are read again.
  void ReleasePages() const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// The whole of a small text file; throws Error when it is missing, empty, larger than max_bytes or no regular file.
std::string ReadTextFile(const std::string& path, size_t max_bytes);

/// Throws Error when it cannot.
void WriteTextFile(const std::string& path, const std::string& text);

}  // namespace quire
