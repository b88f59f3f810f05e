#pragma once

#include <optional>
#include <string>

namespace quire {

/// One call of `quire keygen`: what to make, and where.
struct KeygenCommand {
  std::string transport_directory;
  std::optional<int> ranks;
  std::string api_name;
  bool admin = false;  // a token; it is called "admin", if admin_name does not say otherwise
  std::string admin_name;
  std::string scopes;  // of an API key or token; empty: all
  std::string file;    // of API keys, or of the admin's token
};

/// Throws Error (exit status 2) unless exactly one thing is to be made, with all it needs.
void CheckKeygen(const KeygenCommand& command);

/// Makes keys. An API key or admin token is printed once, on standard output; the file keeps its SHA-256 alone. What is
/// there is never overwritten. Returns the exit status.
int RunKeygen(const KeygenCommand& command);

}  // namespace quire
