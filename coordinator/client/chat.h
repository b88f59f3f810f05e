#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/base/json.h"

namespace quire {

/// Settings of `quire chat`, a conversation with a server on a terminal or through pipes.
struct ChatCommand {
  std::string url = "http://127.0.0.1:8000";
  std::string model;         // the server's name of the model; empty: not sent
  std::string api_key_file;  // path of a file with the key in its first line; empty: no key
  std::string system;        // the system message; empty: none
  /// Fields of the request beside the messages, such as temperature.
  OrderedJson fields = OrderedJson::object();  // fields for every request, read by ParseExactJson
};

/// Reads user messages from standard input, one on each line, and writes answers to standard output as they arrive.
/// Lines that begin with "/" are commands (/help). Returns 1 when the last answer was incomplete, or when the user is
/// at a terminal and no server answers at the start. Throws Error for an invalid address or key file.
int RunChat(ChatCommand command);

}  // namespace quire
