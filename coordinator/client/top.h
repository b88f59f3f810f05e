#pragma once

#include <string>

namespace quire {

/// Settings of `quire top`, which shows a running server on the terminal.
struct TopCommand {
  std::string url = "http://127.0.0.1:8001";  // URL of the admin port
  std::string token_file;                     // path of a file with the token in its first line; empty: no token
  double interval_seconds = 1;
};

/// On a terminal, redraws a view until q or Ctrl-C is pressed. Otherwise prints the view once, with the rates between
/// two readings that are one interval apart. A view that is open waits if the server goes away. Throws Error when the
/// first reading fails or is refused.
int RunTop(const TopCommand& command);

}  // namespace quire
