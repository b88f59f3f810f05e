#include "comm/base/regular_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "comm/base/error.h"

namespace quire {

RegularFile RegularFile::Open(const std::string& path, Links links) {
  const int no_links = links == Links::kRefused ? O_NOFOLLOW : 0;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | no_links);
  if (fd < 0) {
    if (errno == ELOOP && no_links != 0) Fail("{} is a symbolic link: name the file itself", path);
    if (errno == ENXIO) Fail("{} is not a regular file", path);  // open() of a socket fails with ENXIO
    Fail("cannot read {}: {}", path, std::strerror(errno));
  }
  struct stat info {};
  const int failed = ::fstat(fd, &info) != 0 ? errno : 0;
  RegularFile file(path, fd, info);
  if (failed != 0) Fail("cannot read {}: {}", path, std::strerror(failed));
  if (!S_ISREG(info.st_mode)) Fail("{} is not a regular file", path);
  return file;
}

RegularFile::RegularFile(std::string path, int fd, const struct stat& info)
    : path_(std::move(path)), fd_(fd), info_(info) {}

RegularFile::RegularFile(RegularFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), info_(other.info_) {}

RegularFile::~RegularFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::string RegularFile::RealPath() const {
  char real[PATH_MAX];
  const ssize_t length = ::readlink(fmt::format("/proc/self/fd/{}", fd_).c_str(), real, sizeof(real));
  if (length <= 0 || length == static_cast<ssize_t>(sizeof(real)))
    Fail("{}: the system does not say where it is: is /proc mounted?", path_);
  return {real, static_cast<size_t>(length)};
}

size_t RegularFile::Read(std::span<char> bytes) const {
  size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t count = ::read(fd_, bytes.data() + size, bytes.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) Fail("cannot read {}: {}", path_, std::strerror(errno));
    if (count == 0) break;
    size += static_cast<size_t>(count);
  }
  return size;
}

std::string RegularFile::ReadAll(size_t max_bytes) const {
  if (size() > max_bytes) Fail("{}: {} bytes, at most {} are allowed", path_, size(), max_bytes);
  std::string content(size(), '\0');
  content.resize(Read(content));
  if (content.empty()) Fail("{}: the file is empty", path_);
  return content;
}

}  // namespace quire
