#include "coordinator/cluster/runtime_dir.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "comm/error.h"

namespace quire {

RuntimeDir::RuntimeDir() {
  const char* base = std::getenv("XDG_RUNTIME_DIR");
  std::error_code ignored;
  if (base == nullptr || !std::filesystem::is_directory(base, ignored)) base = "/tmp";
  path_ = std::string(base) + "/quire.XXXXXX";  // short: a socket's path must fit 107 bytes
  if (::mkdtemp(path_.data()) == nullptr) Fail("cannot make a directory under {}: {}", base, std::strerror(errno));
}

RuntimeDir::~RuntimeDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace quire
