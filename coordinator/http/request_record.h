#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace quire {

/// The log record of a request that has ended: its client, path and result, but never its contents. Handlers fill in
/// the numbers of tokens; the connection fills in the other members.
struct RequestRecord {
  std::string id;           // x-request-id
  std::string traceparent;  // the client's traceparent header; may be empty
  std::string client;       // name of the key; without keys a digest of the key that the client sent, or empty
  std::string peer;         // IP address
  std::string method;       // empty: the head could not be read
  std::string path;         // path of the URL without the query
  int status = 0;           // status of the answer; 0: the client left before its answer
  int64_t bytes = 0;        // bytes of the answer, head included
  int prompt_tokens = 0;
  int completion_tokens = 0;
  std::optional<double> queue_seconds;        // time until the request's first computation
  std::optional<double> first_token_seconds;  // time until its first token
  std::string parameters;                     // an operator's action, as JSON (audit_log.h)
  double seconds = 0;                         // time from the whole head to the end of the answer
};

}  // namespace quire
