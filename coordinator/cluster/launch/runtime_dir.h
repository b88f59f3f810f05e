#pragma once

#include <string>

namespace quire {

/// A directory of mode 0700 for this server's sockets and MPI's session files. The destructor removes it with its
/// contents. A lock file marks the directory as in use, so that the next server can remove directories of killed
/// servers.
class RuntimeDir {
 public:
  /// Creates the directory under $XDG_RUNTIME_DIR, or under /tmp if that is unusable or too long for socket paths.
  /// Throws Error on failure.
  RuntimeDir();
  ~RuntimeDir();
  RuntimeDir(const RuntimeDir&) = delete;
  RuntimeDir& operator=(const RuntimeDir&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int lock_ = -1;
};

}  // namespace quire
