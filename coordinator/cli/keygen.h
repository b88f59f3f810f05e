#pragma once

#include <optional>
#include <string>

namespace quire {

/// The arguments of one `quire keygen` call.
struct KeygenCommand {
  std::string transport_directory;
  std::optional<int> ranks;
  std::string api_name;
  bool admin = false;  // makes an admin token; its name is "admin" unless admin_name is given
  std::string admin_name;
  std::string scopes;  // scopes of the key or token; empty: all scopes
  std::string file;    // file for API keys or for the admin token
};

/// Throws Error (exit status 2) unless the arguments request exactly one kind of key and are complete.
void CheckKeygen(const KeygenCommand& command);

/// Makes keys. Prints an API key or admin token once, on standard output; the file contains only its SHA-256. Never
/// overwrites a key. Returns the exit status.
int RunKeygen(const KeygenCommand& command);

}  // namespace quire
