#pragma once

#include <unistd.h>

#include <string>

namespace quire {

/// What this host calls itself.
inline std::string OwnHostName() {
  char name[256] = {};
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace quire
