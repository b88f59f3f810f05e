#pragma once

#include <string>
#include <vector>

#include "comm/base/descriptor.h"

namespace quire {

/// Opens the directory at `given`, which holds clients' texts. If it is missing and `make` is true, makes it (mode
/// 0700). Refuses a link, a directory of another user, and a directory that other users may enter, read or write.
/// Throws Error that begins with `setting`, the flag that names the directory, and the path.
Descriptor OpenPrivateDirectory(const std::string& given, const std::string& setting, bool make);

/// True when no other user but root can rename or replace files that this process makes in the directory. The directory
/// must belong to this user or to root. It must have the sticky bit, as /tmp has, if other users may write to it.
/// Returns false when `path` is no directory.
bool IsSafeForFolders(const char* path);

/// Returns the names in an open directory, without "." and "..". Throws Error that begins with `path`.
std::vector<std::string> NamesInDirectory(const Descriptor& directory, const std::string& path);

}  // namespace quire
