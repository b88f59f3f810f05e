#include "coordinator/api/batches/store_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "comm/base/error.h"
#include "comm/base/private_directory.h"

namespace quire {

namespace {

constexpr int kEvery = O_CLOEXEC | O_NOFOLLOW;
constexpr mode_t kFileMode = 0600;

std::string Reason() { return std::strerror(errno); }

}  // namespace

StoreDirectory::StoreDirectory(const std::string& path)
    : path_(path), directory_(OpenPrivateDirectory(path, "--batch-dir", true)) {
  lock_ = Open("lock", O_RDWR | O_CREAT);
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0)
    Fail("--batch-dir {}: another server uses it; give each server a directory of its own", path);
}

Descriptor StoreDirectory::Open(const std::string& name, int flags) const {
  Descriptor file(::openat(directory_.get(), name.c_str(), flags | kEvery, kFileMode));
  if (!file.open()) Fail("{}/{}: {}", path_, name, Reason());
  struct stat info;
  if (::fstat(file.get(), &info) != 0) Fail("{}/{}: {}", path_, name, Reason());
  if (!S_ISREG(info.st_mode) || info.st_nlink > 1) Fail("{}/{}: no plain file with one name", path_, name);
  return file;
}

Descriptor StoreDirectory::OpenToRead(const std::string& name) const { return Open(name, O_RDONLY | O_NONBLOCK); }

Descriptor StoreDirectory::OpenToAppend(const std::string& name) const {
  return Open(name, O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK);
}

Descriptor StoreDirectory::Create(const std::string& name) const { return Open(name, O_RDWR | O_CREAT | O_EXCL); }

std::vector<std::string> StoreDirectory::Names() const { return NamesInDirectory(directory_, path_); }

bool StoreDirectory::Has(const std::string& name) const {
  return ::faccessat(directory_.get(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int64_t StoreDirectory::BytesOf(const std::string& name) const {
  struct stat info;
  const bool known = ::fstatat(directory_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  return known ? static_cast<int64_t>(info.st_size) : 0;
}

std::string StoreDirectory::ReadWhole(const std::string& name, size_t max_bytes) const {
  const Descriptor file = OpenToRead(name);
  std::string content = ReadAt(file.get(), 0, max_bytes + 1, path_ + "/" + name);
  if (content.size() > max_bytes) Fail("{}/{}: larger than {} bytes", path_, name, max_bytes);
  return content;
}

void StoreDirectory::WriteWhole(const std::string& name, std::string_view content) const {
  const std::string fresh = name + std::string(kUnfinishedEnd), what = path_ + "/" + fresh;
  Remove(fresh);
  try {
    const Descriptor file = Create(fresh);
    WriteFully(file.get(), content, what);
    SyncContent(file.get(), what);
  } catch (...) {
    ::unlinkat(directory_.get(), fresh.c_str(), 0);
    throw;
  }
  Rename(fresh, name);
}

void StoreDirectory::Rename(const std::string& from, const std::string& to) const {
  if (::renameat(directory_.get(), from.c_str(), directory_.get(), to.c_str()) != 0)
    Fail("{}/{}: {}", path_, to, Reason());
  Sync();
}

void StoreDirectory::Remove(const std::string& name) const {
  if (::unlinkat(directory_.get(), name.c_str(), 0) != 0 && errno != ENOENT) Fail("{}/{}: {}", path_, name, Reason());
}

void StoreDirectory::RemoveContent(const std::string& name) const {
  const Descriptor file(::openat(directory_.get(), name.c_str(), O_WRONLY | O_NONBLOCK | kEvery));
  struct stat info;
  const bool is_plain = file.open() && ::fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 1;
  if (is_plain) CutTo(file.get(), 0);
  Remove(name);
}

void StoreDirectory::Sync() const {
  // Some file systems refuse to sync a directory, with EINVAL. A rename is then only as durable as such a file system
  // makes it.
  if (::fsync(directory_.get()) != 0 && errno != EINVAL) Fail("{}: {}", path_, Reason());
}

void WriteFully(int descriptor, std::string_view bytes, const std::string& what) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) Fail("{}: {}", what, Reason());
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void SyncContent(int descriptor, const std::string& what) {
  if (::fdatasync(descriptor) != 0) Fail("{}: {}", what, Reason());
}

int64_t CutAtLastLine(int descriptor, const std::string& what) {
  constexpr size_t kPiece = 256 << 10;
  int64_t lines = 0, end = 0, at = 0;
  for (;;) {
    const std::string piece = ReadAt(descriptor, at, kPiece, what);
    if (piece.empty()) break;
    lines += std::ranges::count(piece, '\n');
    const size_t last = piece.rfind('\n');
    if (last != std::string::npos) end = at + static_cast<int64_t>(last) + 1;
    at += static_cast<int64_t>(piece.size());
  }
  if (end < at && ::ftruncate(descriptor, end) != 0) Fail("{}: {}", what, Reason());
  return lines;
}

void CutTo(int descriptor, int64_t bytes) {
  if (::ftruncate(descriptor, bytes) == 0) (void)::fdatasync(descriptor);
}

std::string ReadAt(int descriptor, off_t offset, size_t count, const std::string& what) {
  struct stat info;
  if (::fstat(descriptor, &info) != 0) Fail("{}: {}", what, Reason());
  const off_t left = info.st_size > offset ? info.st_size - offset : 0;
  std::string bytes(std::min(count, static_cast<size_t>(left)), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(descriptor, bytes.data() + done, bytes.size() - done, offset + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) Fail("{}: {}", what, Reason());
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace quire
