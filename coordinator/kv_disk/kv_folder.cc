#include "coordinator/kv_disk/kv_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "comm/base/error.h"
#include "comm/base/private_directory.h"
#include "coordinator/kv_disk/block_seal.h"

namespace quire {

namespace {

constexpr int kEvery = O_CLOEXEC | O_NOFOLLOW;
constexpr const char *kSecretFile = "secret", *kAbout = "about";
constexpr std::string_view kUnfinished = ".part";
constexpr double kUnfinishedSeconds = 3600;  // the server of an older unfinished file has ended
constexpr size_t kMostAboutBytes = 65536;

std::string Why() { return std::strerror(errno); }

bool IsHex(const std::string& name, size_t digits) {
  return name.size() == digits && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}
bool IsSpaceFolder(const std::string& name) { return IsHex(name, 16); }

/// Writes a new file into `directory` (a descriptor) under a name that no other thread or process uses, syncs the file
/// and returns the name. `path` is for messages. Leaves no file after an error.
std::string WriteUnfinished(int directory, const std::string& path, std::span<const std::byte> content) {
  static std::atomic<uint64_t> count{0};
  const std::string name = fmt::format("{}.{}{}", ::getpid(), ++count, kUnfinished);
  const Descriptor file(::openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | kEvery, 0600));
  if (!file.open()) Fail("{}/{}: {}", path, name, Why());
  size_t written = 0;
  while (written < content.size()) {
    const ssize_t count_now = ::write(file.get(), content.data() + written, content.size() - written);
    if (count_now < 0 && errno == EINTR) continue;
    if (count_now <= 0) break;
    written += static_cast<size_t>(count_now);
  }
  if (written == content.size() && ::fdatasync(file.get()) == 0) return name;
  const std::string why = Why();
  ::unlinkat(directory, name.c_str(), 0);
  Fail("{}/{}: {}", path, name, why);
}

/// Reads a whole regular file of `directory` (a descriptor); returns nothing when the file is missing. `path` is for
/// messages; `info` gets the file's status. Throws Error when the file is larger than `most` bytes.
std::optional<std::vector<std::byte>> ReadPlain(int directory, const std::string& name, const std::string& path,
                                                size_t most, struct stat& info) {
  const Descriptor file(::openat(directory, name.c_str(), O_RDONLY | O_NONBLOCK | kEvery));
  if (!file.open() && errno == ENOENT) return std::nullopt;
  if (!file.open() || ::fstat(file.get(), &info) != 0) Fail("{}/{}: {}", path, name, Why());
  if (!S_ISREG(info.st_mode)) Fail("{}/{}: no plain file", path, name);
  if (info.st_size < 0 || static_cast<size_t>(info.st_size) > most) Fail("{}/{}: too large", path, name);
  std::vector<std::byte> content(static_cast<size_t>(info.st_size));
  size_t read = 0;
  while (read < content.size()) {
    const ssize_t count = ::read(file.get(), content.data() + read, content.size() - read);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) Fail("{}/{}: {}", path, name, Why());
    if (count == 0) break;
    read += static_cast<size_t>(count);
  }
  content.resize(read);
  return content;
}

}  // namespace

bool IsBlockFile(const std::string& name) { return IsHex(name, 40); }

KvFolder::KvFolder(const std::string& path, Existence existence)
    : path_(path),
      directory_(ReadAsSettings([&] { return OpenPrivateDirectory(path, "--kv-disk", existence == kMayBeMade); })) {
  secret_ = ReadAsSettings([&] {
    if (existence == kMayBeMade) MakeSecret();
    return ReadSecret();
  });
}

/// Makes the file `secret`. Several servers may do this at the same time; the first file stays.
void KvFolder::MakeSecret() const {
  if (::faccessat(directory_.get(), kSecretFile, F_OK, AT_SYMLINK_NOFOLLOW) == 0) return;
  const std::string secret = NewKvSecret();
  const std::string name = WriteUnfinished(directory_.get(), path_, std::as_bytes(std::span(secret)));
  const bool linked = ::linkat(directory_.get(), name.c_str(), directory_.get(), kSecretFile, 0) == 0;
  const bool is_there = linked || errno == EEXIST;
  const std::string why = Why();
  ::unlinkat(directory_.get(), name.c_str(), 0);
  if (!is_there) Fail("--kv-disk {}/{}: {}", path_, kSecretFile, why);
}

std::string KvFolder::ReadSecret() const {
  struct stat info;
  const auto content = ReadPlain(directory_.get(), kSecretFile, path_, BlockSeal::kSecretBytes, info);
  if (!content || content->size() != BlockSeal::kSecretBytes)
    Fail("--kv-disk {}/{}: no secret of {} bytes; remove the whole directory", path_, kSecretFile,
         BlockSeal::kSecretBytes);
  if ((info.st_mode & 077) != 0 || info.st_uid != ::geteuid())
    Fail("--kv-disk {}/{}: others may read it: chmod 600 it, or remove the whole directory", path_, kSecretFile);
  return {reinterpret_cast<const char*>(content->data()), content->size()};
}

Descriptor KvFolder::OpenFolder(const std::string& folder) const {
  Descriptor opened(::openat(directory_.get(), folder.c_str(), O_RDONLY | O_DIRECTORY | kEvery));
  if (!opened.open()) Fail("{}/{}: {}", path_, folder, Why());
  return opened;
}

void KvFolder::MakeFolder(const std::string& folder) {
  if (::mkdirat(directory_.get(), folder.c_str(), 0700) != 0 && errno != EEXIST)
    Fail("{}/{}: {}", path_, folder, Why());
}

void KvFolder::MakeSpace(const std::string& folder, const std::string& description) {
  MakeFolder(folder);
  if (DescriptionOf(folder) != description) Write(folder, kAbout, std::as_bytes(std::span(description)));
}

void KvFolder::AddSpace(const std::string& folder, const std::string& description) {
  MakeFolder(folder);
  if (DescriptionOf(folder).empty()) Write(folder, kAbout, std::as_bytes(std::span(description)));
}

std::string KvFolder::DescriptionOf(const std::string& folder) const {
  struct stat info;
  const Descriptor directory = OpenFolder(folder);
  const auto content = ReadPlain(directory.get(), kAbout, path_ + "/" + folder, kMostAboutBytes, info);
  return content ? std::string(reinterpret_cast<const char*>(content->data()), content->size()) : "";
}

void KvFolder::Write(const std::string& folder, const std::string& name, std::span<const std::byte> content) {
  const Descriptor directory = OpenFolder(folder);
  const std::string part = WriteUnfinished(directory.get(), path_ + "/" + folder, content);
  if (::renameat(directory.get(), part.c_str(), directory.get(), name.c_str()) == 0) return;
  const std::string why = Why();
  ::unlinkat(directory.get(), part.c_str(), 0);
  Fail("{}/{}/{}: {}", path_, folder, name, why);
}

std::optional<std::vector<std::byte>> KvFolder::Read(const std::string& folder, const std::string& name,
                                                     size_t bytes) const {
  struct stat info;
  const Descriptor directory = OpenFolder(folder);
  const bool is_there = ::fstatat(directory.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  if (!is_there && errno == ENOENT) return std::nullopt;
  if (is_there && S_ISREG(info.st_mode) && static_cast<size_t>(info.st_size) != bytes) {  // no server can use the file
    ::unlinkat(directory.get(), name.c_str(), 0);
    return std::nullopt;
  }
  auto content = ReadPlain(directory.get(), name, path_ + "/" + folder, bytes, info);
  if (!content || content->size() != bytes) return std::nullopt;
  ::utimensat(directory.get(), name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  return content;
}

std::optional<std::vector<std::byte>> KvFolder::Peek(const std::string& folder, const std::string& name,
                                                     size_t most) const {
  struct stat info;
  const Descriptor directory = OpenFolder(folder);
  return ReadPlain(directory.get(), name, path_ + "/" + folder, most, info);
}

std::vector<std::string> KvFolder::NamesEndingWith(const std::string& folder, std::string_view end) const {
  std::vector<std::string> names = NamesInDirectory(OpenFolder(folder), path_ + "/" + folder);
  std::erase_if(names, [end](const std::string& name) { return !name.ends_with(end); });
  return names;
}

void KvFolder::NoteUse(const std::string& folder, const std::string& name) {
  ::utimensat(OpenFolder(folder).get(), name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

void KvFolder::Remove(const std::string& folder, const std::string& name) {
  const Descriptor directory = OpenFolder(folder);
  if (::unlinkat(directory.get(), name.c_str(), 0) != 0 && errno != ENOENT)
    Fail("{}/{}/{}: {}", path_, folder, name, Why());
}

std::vector<KvFolder::Entry> KvFolder::List() {
  std::vector<Entry> entries;
  for (const std::string& folder : NamesInDirectory(directory_, path_)) {
    if (!IsSpaceFolder(folder)) continue;
    const Descriptor directory = OpenFolder(folder);
    for (const std::string& name : NamesInDirectory(directory, path_ + "/" + folder)) {
      struct stat info;
      if (::fstatat(directory.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;  // already removed
      const double used = static_cast<double>(info.st_mtim.tv_sec) + 1e-9 * static_cast<double>(info.st_mtim.tv_nsec);
      const bool old = used + kUnfinishedSeconds < static_cast<double>(std::time(nullptr));
      if (name.ends_with(kUnfinished) && old) ::unlinkat(directory.get(), name.c_str(), 0);
      if (IsBlockFile(name) && S_ISREG(info.st_mode)) entries.push_back({folder, name, int64_t{info.st_size}, used});
    }
  }
  return entries;
}

}  // namespace quire
