#pragma once

#include <optional>
#include <string>

namespace quire {

/// The arguments of one `quire cache` call.
struct CacheCommand {
  std::string action;     // ls, verify or prune
  std::string directory;  // the --kv-disk of servers
  std::optional<double> gibibytes;
  std::optional<int> days;
};

/// Throws Error (exit status 2) unless the arguments fit the action.
void CheckCache(const CacheCommand& command);

/// ls: prints what each kind of blocks takes. verify: opens every file and prints those that are not right; status 1 if
/// there is one. prune: removes files that were not used for so many days, then those that were not used for longest,
/// until the others fit the size. Servers may run meanwhile. Returns the exit status.
int RunCache(const CacheCommand& command);

}  // namespace quire
