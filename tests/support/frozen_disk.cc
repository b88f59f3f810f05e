// A frozen disk for tests, loaded before libc by LD_PRELOAD. write() to a file below the directory QUIRE_FROZEN_DISK
// waits while the file QUIRE_FREEZE exists. This simulates a file system under fsfreeze without needing one.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

bool Frozen(int fd) {
  const char* flag = std::getenv("QUIRE_FREEZE");
  const char* disk = std::getenv("QUIRE_FROZEN_DISK");
  if (flag == nullptr || disk == nullptr || ::access(flag, F_OK) != 0) return false;
  char link[64], path[4096] = {};
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(link, path, sizeof(path) - 1);
  return length > 0 && std::strncmp(path, disk, std::strlen(disk)) == 0;
}

}  // namespace

extern "C" ssize_t write(int fd, const void* bytes, size_t count) {
  using Write = ssize_t (*)(int, const void*, size_t);
  static const auto next = reinterpret_cast<Write>(::dlsym(RTLD_NEXT, "write"));
  while (Frozen(fd)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return next(fd, bytes, count);
}
