#pragma once

#include <string>

namespace quire {

/// A directory of mode 0700 for this server's sockets and MPI's session files; removed with everything in it at the
/// end. Held by a lock, so that the next server can tell what a killed one left behind, and removes it.
class RuntimeDir {
 public:
  /// Under $XDG_RUNTIME_DIR, or /tmp where that is no place or too long a name for sockets. Throws Error when it
  /// cannot be made.
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
