#include "comm/base/private_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "comm/base/error.h"

namespace quire {

Descriptor OpenPrivateDirectory(const std::string& given, const std::string& setting, bool make) {
  std::string path = given;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();  // open() follows a link whose path ends with a slash
  if (make && ::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    Fail("{} {}: {}", setting, path, std::strerror(errno));
  Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!directory.open()) {
    // With O_DIRECTORY, Linux reports ENOTDIR for a link, and not ELOOP.
    const char* hint = errno == ELOOP || errno == ENOTDIR ? "; give a directory, not a link" : "";
    Fail("{} {}: {}{}", setting, path, std::strerror(errno), hint);
  }
  struct stat info;
  if (::fstat(directory.get(), &info) != 0) Fail("{} {}: {}", setting, path, std::strerror(errno));
  if (info.st_uid != ::geteuid()) Fail("{} {}: it belongs to another user; give one of your own", setting, path);
  if ((info.st_mode & 077) != 0)
    Fail("{} {}: others may read it, and it is to hold prompts and answers: chmod 700 {}", setting, path, path);
  return directory;
}

bool IsSafeForFolders(const char* path) {
  struct stat info {};
  if (::stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return false;
  const bool is_trusted = info.st_uid == ::geteuid() || info.st_uid == 0;
  const bool others_write = (info.st_mode & 022) != 0, is_sticky = (info.st_mode & S_ISVTX) != 0;
  return is_trusted && (!others_write || is_sticky);
}

std::vector<std::string> NamesInDirectory(const Descriptor& directory, const std::string& path) {
  const int own = ::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* listing = own < 0 ? nullptr : ::fdopendir(own);
  if (listing == nullptr) Fail("{}: {}", path, std::strerror(errno));
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  ::closedir(listing);
  return names;
}

}  // namespace quire
