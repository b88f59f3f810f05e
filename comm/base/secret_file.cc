#include "comm/base/secret_file.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "comm/base/error.h"
#include "comm/base/regular_file.h"

namespace quire {

namespace {

void CheckFile(const std::string& path, const struct stat& info, FileAccess access, size_t max_bytes) {
  if (info.st_uid != ::geteuid())
    Fail("{} belongs to user {}, this process is user {}: chown it, or make keys of your own", path, info.st_uid,
         ::geteuid());
  const mode_t forbidden = access == FileAccess::kOwnerOnly ? 077 : 022;
  if ((info.st_mode & forbidden) != 0) {
    Fail("{} has mode {:04o}, so that others can {} it: chmod {} {}", path, info.st_mode & 07777,
         access == FileAccess::kOwnerOnly ? "reach" : "change", access == FileAccess::kOwnerOnly ? "0600" : "0644",
         path);
  }
  if (static_cast<size_t>(info.st_size) > max_bytes) Fail("{} is larger than {} bytes", path, max_bytes);
}

/// Writes all bytes; returns false with errno set when a write fails.
bool WriteAll(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t count = ::write(fd, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    content.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

}  // namespace

Secret::Secret(size_t size) : bytes_(static_cast<char*>(::sodium_malloc(size))), size_(size) {
  if (bytes_ == nullptr) throw std::bad_alloc();
}

void Secret::Free::operator()(char* bytes) const { ::sodium_free(bytes); }

Secret ReadGuardedFile(const std::string& path, FileAccess access, size_t max_bytes) {
  const RegularFile file = RegularFile::Open(path, RegularFile::Links::kRefused);
  CheckFile(path, file.info(), access, max_bytes);
  Secret content(file.size());
  content.Shorten(file.Read({content.data(), content.size()}));
  return content;
}

void CreateFile(const std::string& path, std::string_view content, mode_t mode) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) {
    if (errno == EEXIST) FailSettings("{} exists; remove it first if its keys are no longer wanted", path);
    FailSettings("cannot write {}: {}", path, std::strerror(errno));
  }
  ::fchmod(fd, mode);  // the umask must not narrow the mode
  const bool written = WriteAll(fd, content) && ::fsync(fd) == 0;
  const int error = errno;
  ::close(fd);
  if (!written) Fail("cannot write {}: {}", path, std::strerror(error));
}

}  // namespace quire
