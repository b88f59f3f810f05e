#include "comm/model/formats/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "comm/base/error.h"
#include "comm/model/formats/mapping_errors.h"

namespace quire {

MappedFile::MappedFile(const std::string& path) : MappedFile(RegularFile::Open(path, RegularFile::Links::kFollowed)) {}

MappedFile::MappedFile(const RegularFile& file) : path_(file.path()), size_(file.size()) {
  if (size_ == 0) Fail("{}: the file is empty", path_);
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (data == MAP_FAILED) Fail("{}: cannot map {} bytes: {}", path_, size_, std::strerror(errno));
  data_ = static_cast<const std::byte*>(data);
  NoteMapping(data_, size_, path_);
}

MappedFile::MappedFile(const RegularFile& file, size_t most_bytes)
    : path_(file.path()), size_(file.size()), is_copy_(true) {
  if (size_ == 0) Fail("{}: the file is empty", path_);
  if (size_ > most_bytes) Fail("{}: the file has {} bytes, and at most {} are read", path_, size_, most_bytes);
  void* data = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) Fail("{}: no memory for {} bytes: {}", path_, size_, std::strerror(errno));
  data_ = static_cast<const std::byte*>(data);
  size_t read = 0;
  try {
    read = file.Read({static_cast<char*>(data), size_});
  } catch (...) {
    ::munmap(data, size_);
    throw;
  }
  if (read == size_) return;
  ::munmap(data, size_);
  Fail("{}: the file became shorter while it was read", path_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      is_copy_(other.is_copy_) {}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  if (!is_copy_) ForgetMapping(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::ReleasePages() const {
  if (!is_copy_) ::madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED);
}

std::string ReadTextFile(const std::string& path, size_t max_bytes) {
  return RegularFile::Open(path, RegularFile::Links::kFollowed).ReadAll(max_bytes);
}

void WriteTextFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) Fail("{}: cannot be written", path);
}

}  // namespace quire
