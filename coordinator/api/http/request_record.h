#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace quire {

/// What is told of a request once it is over: who asked for what, and what it came to. Never what was said. Handlers
/// fill in what they know of tokens, the connection everything else.
struct RequestRecord {
  std::string id;           // x-request-id
  std::string traceparent;  // of the client; empty without
  std::string client;       // name of the key; where none is needed, a digest of what came in its place, or nothing
  std::string peer;         // IP address
  std::string method;       // empty: the head could not be read
  std::string path;         // without the query
  int status = 0;           // of the answer; 0: the client left before there was one
  int64_t bytes = 0;        // of the answer, with its head
  int prompt_tokens = 0;
  int completion_tokens = 0;
  std::optional<double> queue_seconds;        // until something of it was computed
  std::optional<double> first_token_seconds;  // until a token was there
  std::string parameters;                     // of an operator's verb, as JSON (audit_log.h)
  double seconds = 0;                         // from the head to the end of the answer
};

}  // namespace quire
