#pragma once

#include <string>

namespace quire {

/// `quire top`: a server that runs, watched on the terminal.
struct TopCommand {
  std::string url = "http://127.0.0.1:8001";  // of the admin port
  std::string token_file;                     // its first line is sent; empty: none
  double interval_seconds = 1;
};

/// On a terminal a view that is drawn anew until q or Ctrl-C; elsewhere what two readings, an interval apart, show,
/// once. A server that goes away while it is watched is waited for. Throws Error where nothing answers at first, or
/// refuses.
int RunTop(const TopCommand& command);

}  // namespace quire
