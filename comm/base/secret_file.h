#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace quire {

/// Bytes that must not be read by others: in memory that is locked, between guard pages, left out of core dumps, and
/// overwritten when it is given back (libsodium's allocator). Needs sodium_init.
class Secret {
 public:
  Secret() = default;
  explicit Secret(size_t size);

  char* data() { return bytes_.get(); }
  std::string_view view() const { return {bytes_.get(), size_}; }
  size_t size() const { return size_; }
  /// Keeps the first `size` bytes.
  void Shorten(size_t size) { size_ = size; }

 private:
  struct Free {
    void operator()(char* bytes) const;
  };
  std::unique_ptr<char[], Free> bytes_;
  size_t size_ = 0;
};

/// Who may have access to a file beside its owner.
enum class FileAccess {
  kOwnerOnly,      // nobody: mode & 077 == 0
  kOthersMayRead,  // but not write: mode & 022 == 0
};

/// The whole file. Refused with path and remedy: symbolic links, anything but a regular file, a file of somebody else,
/// access that is wider than allowed, more than `max_bytes`.
Secret ReadGuardedFile(const std::string& path, FileAccess access, size_t max_bytes);

/// Makes a file that was not there, or throws Error. A file that is there is never touched.
void CreateFile(const std::string& path, std::string_view content, mode_t mode);

}  // namespace quire
