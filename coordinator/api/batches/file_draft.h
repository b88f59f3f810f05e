#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "comm/base/descriptor.h"

namespace quire {

class StoreDirectory;

/// A file that a client is sending. Removed when it goes, unless it was finished.
class FileDraft {
 public:
  /// most: maximum of the file's bytes. `taken` counts the draft's bytes until the draft is destroyed. The references
  /// must outlive the draft.
  FileDraft(const StoreDirectory& directory, std::string client, std::string id, int64_t most,
            std::atomic<int64_t>& taken);
  ~FileDraft();
  FileDraft(const FileDraft&) = delete;
  FileDraft& operator=(const FileDraft&) = delete;

  /// Throws ApiError when the file becomes too long, and Error when the disk fails.
  void Append(std::string_view bytes);
  /// Makes the content durable under the file's name.
  void Keep();

  const std::string& id() const { return id_; }
  const std::string& client() const { return client_; }
  int64_t bytes() const { return bytes_; }

 private:
  const StoreDirectory& directory_;
  const std::string client_, id_;
  const int64_t most_;
  std::atomic<int64_t>& taken_;
  Descriptor file_;
  int64_t bytes_ = 0;
  bool kept_ = false;
};

}  // namespace quire
