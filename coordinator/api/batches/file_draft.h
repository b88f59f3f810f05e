#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "comm/base/descriptor.h"

namespace quire {

class StoreDirectory;
class StoreUsage;

/// A file that is being written: a client's upload, or the text of a long answer. The destructor removes the file
/// unless Keep was called.
class FileDraft {
 public:
  /// most: the most bytes of the file. The file's bytes count as the client's in `usage` while the draft lives, and
  /// after Keep until the file is deleted. The references must outlive this object.
  FileDraft(const StoreDirectory& directory, std::string client, std::string id, int64_t most, StoreUsage& usage);
  ~FileDraft();
  FileDraft(const FileDraft&) = delete;
  FileDraft& operator=(const FileDraft&) = delete;

  /// Appends bytes. Throws ApiError when the file becomes too long, and Error when the disk fails.
  void Append(std::string_view bytes);
  /// Makes the content durable under the file's name.
  void Keep();
  /// Returns up to `count` bytes from `offset` on. Throws Error when the disk fails.
  std::string Read(int64_t offset, size_t count) const;

  const std::string& id() const { return id_; }
  const std::string& client() const { return client_; }
  int64_t bytes() const { return bytes_; }

 private:
  const StoreDirectory& directory_;
  const std::string client_, id_;
  const int64_t most_;
  StoreUsage& usage_;
  Descriptor file_;
  int64_t bytes_ = 0;
  bool kept_ = false;
};

}  // namespace quire
