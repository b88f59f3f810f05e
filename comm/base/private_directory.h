#pragma once

#include <string>
#include <vector>

#include "comm/base/descriptor.h"

namespace quire {

/// Opens the directory at `given`, which holds clients' texts. If it is missing and `make` is true, makes it (mode
/// 0700). Refuses a link, a directory of another user, and a directory that other users may enter or read. Throws Error
/// that begins with `setting`, the flag that names the directory, and the path.
Descriptor OpenPrivateDirectory(const std::string& given, const std::string& setting, bool make);

/// Returns the names in an open directory, without "." and "..". Throws Error that begins with `path`.
std::vector<std::string> NamesInDirectory(const Descriptor& directory, const std::string& path);

}  // namespace quire
