#pragma once

#include <unistd.h>

#include <string>

namespace quire {

/// Returns this host's name as gethostname() reports it.
inline std::string OwnHostName() {
  char name[256] = {};
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace quire
