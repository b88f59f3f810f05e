#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/base/json.h"

namespace quire {

/// `quire chat`: a conversation with a server, on a terminal or through pipes.
struct ChatCommand {
  std::string url = "http://127.0.0.1:8000";
  std::string model;         // as the server calls it; empty: not said
  std::string api_key_file;  // its first line is sent; empty: none
  std::string system;        // the system message; empty: none
  /// Fields of the request beside the messages, such as temperature.
  OrderedJson fields = OrderedJson::object();  // as ParseExactJson has them
};

/// Reads messages from standard input, a line each, and writes the answers to standard output as they come. Lines that
/// begin with "/" are commands (/help). Status 1 when the last answer was not whole. Throws Error for an address or a
/// key file that is none.
int RunChat(ChatCommand command);

}  // namespace quire
