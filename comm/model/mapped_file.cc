#include "comm/model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <utility>

#include "comm/error.h"

namespace quire {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) Fail("{}: cannot open: {}", path, std::strerror(errno));
  struct stat info {};
  const bool regular = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  if (!regular || info.st_size == 0) {
    ::close(fd);
    Fail("{}: {}", path, regular ? "the file is empty" : "not a regular file");
  }
  size_ = static_cast<size_t>(info.st_size);
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
  ::close(fd);
  if (data == MAP_FAILED) Fail("{}: cannot map {} bytes: {}", path, size_, std::strerror(errno));
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::ReleasePages() const { ::madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED); }

std::string ReadTextFile(const std::string& path, size_t max_bytes) {
  const MappedFile file(path);
  if (file.bytes().size() > max_bytes)
    Fail("{}: {} bytes, at most {} are allowed", path, file.bytes().size(), max_bytes);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

void WriteTextFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) Fail("{}: cannot be written", path);
}

}  // namespace quire
