#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace quire {

/// Bytes that other processes must not read. The memory of a Secret (from libsodium's allocator) is locked, lies
/// between guard pages, stays out of core dumps, and is overwritten when freed. Call sodium_init first.
class Secret {
 public:
  Secret() = default;
  explicit Secret(size_t size);

  char* data() { return bytes_.get(); }
  std::string_view view() const { return {bytes_.get(), size_}; }
  size_t size() const { return size_; }
  /// Shortens the secret to its first `size` bytes.
  void Shorten(size_t size) { size_ = size; }

 private:
  struct Free {
    void operator()(char* bytes) const;
  };
  std::unique_ptr<char[], Free> bytes_;
  size_t size_ = 0;
};

/// The access that a file may give to users other than its owner.
enum class FileAccess {
  kOwnerOnly,      // no access: mode & 077 == 0
  kOthersMayRead,  // no write access: mode & 022 == 0
};

/// Reads the whole file. Throws Error with the path and a remedy for a symbolic link, for anything that is no regular
/// file, for another user's file, for a file that other users may access more than `access` says, and for a file of
/// more than `max_bytes` bytes.
Secret ReadGuardedFile(const std::string& path, FileAccess access, size_t max_bytes);

/// Creates a new file with this content and exactly this mode. Throws Error when the file exists or cannot be written;
/// never changes an existing file.
void CreateFile(const std::string& path, std::string_view content, mode_t mode);

}  // namespace quire
