#include "comm/secret_file.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "comm/error.h"

namespace quire {

namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

void CheckFile(const std::string& path, const struct stat& info, FileAccess access, size_t max_bytes) {
  if (!S_ISREG(info.st_mode)) Fail("{} is not a regular file", path);
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

}  // namespace

Secret::Secret(size_t size) : bytes_(static_cast<char*>(::sodium_malloc(size))), size_(size) {
  if (bytes_ == nullptr) throw std::bad_alloc();
}

void Secret::Free::operator()(char* bytes) const { ::sodium_free(bytes); }

Secret ReadGuardedFile(const std::string& path, FileAccess access, size_t max_bytes) {
  // Not blocking: a pipe in the file's place must not hold up the start.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) {
    if (errno == ELOOP) Fail("{} is a symbolic link: name the file itself", path);
    Fail("cannot read {}: {}", path, std::strerror(errno));
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) Fail("cannot read {}: {}", path, std::strerror(errno));
  CheckFile(path, info, access, max_bytes);
  Secret content(static_cast<size_t>(info.st_size));
  size_t size = 0;
  while (size < content.size()) {
    const ssize_t count = ::read(file.get(), content.data() + size, content.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) Fail("cannot read {}: {}", path, std::strerror(errno));
    if (count == 0) break;
    size += static_cast<size_t>(count);
  }
  content.Shorten(size);
  return content;
}

void CreateFile(const std::string& path, std::string_view content, mode_t mode) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (file.get() < 0) {
    if (errno == EEXIST) Fail("{} exists; remove it first if its keys are no longer wanted", path);
    Fail("cannot write {}: {}", path, std::strerror(errno));
  }
  ::fchmod(file.get(), mode);  // whatever the umask says
  while (!content.empty()) {
    const ssize_t count = ::write(file.get(), content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) Fail("cannot write {}: {}", path, std::strerror(errno));
    content.remove_prefix(static_cast<size_t>(count));
  }
  if (::fsync(file.get()) != 0) Fail("cannot write {}: {}", path, std::strerror(errno));
}

}  // namespace quire
