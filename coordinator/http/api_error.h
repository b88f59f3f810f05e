#pragma once

#include <stdexcept>
#include <string>

#include "coordinator/http/http_types.h"

namespace quire {

/// The error of a request that cannot be served. The server answers with this status and message.
struct ApiError : std::runtime_error {
  ApiError(int s, const std::string& message, std::string p = "")
      : std::runtime_error(message), status(s), param(std::move(p)) {}
  int status;
  std::string param;           // the field with the error
  std::string code;            // OpenAI's code; empty: OpenAI has none
  bool retry_in_vain = false;  // a retry would cost the same work and fail again
};

/// Returns an error of status 400. Its code, and its message with `max_model_len` (in tokens), tell clients to send
/// less text. `rest` is the end of the message and names the part of the request that does not fit.
ApiError ContextLengthError(int max_model_len, const std::string& rest, std::string param);

/// Returns the answer for this error. If a retry would be in vain, the answer has `x-should-retry: false`, which
/// clients that retry respect. Otherwise an answer with status 503 or 429 has Retry-After.
HttpResponse ErrorResponse(const ApiError& error);

}  // namespace quire
