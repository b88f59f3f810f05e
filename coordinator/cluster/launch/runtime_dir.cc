#include "coordinator/cluster/launch/runtime_dir.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "comm/base/error.h"
#include "comm/base/private_directory.h"

namespace quire {

namespace {

constexpr const char* kPrefix = "quire.";
constexpr const char* kLock = "/runtime.lock";  // no other directory of a server has a file of this name
constexpr size_t kLongestBase = 64;  // a socket's path must fit into 107 bytes

/// Removes directories of killed servers. Their lock file exists, but no process holds its lock.
void RemoveStale(const std::filesystem::path& base) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(base, error)) {
    struct stat info {};
    const std::string path = entry.path();
    const bool ours = ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
    if (!ours || !entry.path().filename().string().starts_with(kPrefix)) continue;
    const int lock = ::open((path + kLock).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (lock < 0) continue;
    if (::flock(lock, LOCK_EX | LOCK_NB) == 0) std::filesystem::remove_all(path, error);
    ::close(lock);
  }
}

}  // namespace

RuntimeDir::RuntimeDir() {
  const char* base = std::getenv("XDG_RUNTIME_DIR");
  const bool fits = base != nullptr && std::strlen(base) <= kLongestBase;
  if (!fits || !IsSafeForFolders(base) || ::access(base, W_OK) != 0) base = "/tmp";
  RemoveStale(base);
  // The directory gets its final name only when it is locked. Before that, another server could take the directory for
  // a stale one and remove it.
  path_ = std::string(base) + "/." + kPrefix + "XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) Fail("cannot make a directory under {}: {}", base, std::strerror(errno));
  lock_ = ::open((path_ + kLock).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (lock_ < 0 || ::flock(lock_, LOCK_EX | LOCK_NB) != 0) Fail("cannot lock {}: {}", path_, std::strerror(errno));
  const std::string visible = std::string(base) + "/" + path_.substr(path_.rfind('/') + 2);
  if (::rename(path_.c_str(), visible.c_str()) != 0) Fail("cannot rename {}: {}", path_, std::strerror(errno));
  path_ = visible;
}

RuntimeDir::~RuntimeDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  ::close(lock_);
}

}  // namespace quire
