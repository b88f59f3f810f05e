#pragma once

#include <optional>
#include <string>

namespace quire {

/// The arguments of one `quire cache` call.
struct CacheCommand {
  std::string action;     // ls, verify, prune, export or import
  std::string directory;  // the directory that servers use as --kv-disk
  std::string archive;    // for export and import: the archive's file
  std::optional<double> gibibytes;
  std::optional<int> days;
  std::string model;                         // for export and import: only this model
  std::optional<std::string> pin;            // for export: only this pinned prompt
  std::string passphrase_file, secret_file;  // files with the key that seals the archive
};

/// Throws Error (exit status 2) unless the arguments fit the action.
void CheckCache(const CacheCommand& command);

/// Runs one `quire cache` call and returns the exit status. ls prints the number, the size and the last use of the
/// blocks in each folder. verify opens every file and prints the damaged files; the status is 1 if a file is damaged.
/// prune removes files that were not used for the given number of days, then the least recently used files until the
/// remaining files fit the given size. export and import copy blocks to another directory by way of an archive. Servers
/// may run meanwhile.
int RunCache(const CacheCommand& command);

}  // namespace quire
