#pragma once

#include <optional>
#include <string>

namespace quire {

/// The arguments of one `quire cache` call.
struct CacheCommand {
  std::string action;     // ls, verify, prune, export or import
  std::string directory;  // the --kv-disk of servers
  std::string archive;    // export, import: the file
  std::optional<double> gibibytes;
  std::optional<int> days;
  std::string model;                         // export, import: only this one
  std::optional<std::string> pin;            // export: only this pinned prompt
  std::string passphrase_file, secret_file;  // what the archive is sealed with
};

/// Throws Error (exit status 2) unless the arguments fit the action.
void CheckCache(const CacheCommand& command);

/// Runs one `quire cache` call and returns the exit status. ls: prints the files and bytes of each kind of blocks.
/// verify: opens every file and prints the damaged files; status 1 if a file is damaged. prune: removes files that were
/// not used for the given days, then the least recently used files until the others fit the size. export and import:
/// take blocks to another directory by way of an archive. Servers may run meanwhile.
int RunCache(const CacheCommand& command);

}  // namespace quire
