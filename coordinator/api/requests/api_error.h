#pragma once

#include <stdexcept>
#include <string>

#include "coordinator/api/http/http_types.h"

namespace quire {

/// A request that cannot be served as asked; becomes an error answer with this status.
struct ApiError : std::runtime_error {
  ApiError(int s, const std::string& message, std::string p = "")
      : std::runtime_error(message), status(s), param(std::move(p)) {}
  int status;
  std::string param;           // the field at fault
  std::string code;            // as OpenAI calls it; empty: it has no name there
  bool retry_in_vain = false;  // the same request would end in the same way, after as much work
};

/// 400 with the code and the words by which clients see that they must send less. `rest` tells what does not fit.
ApiError ContextLengthError(int max_model_len, const std::string& rest, std::string param);

/// The answer that tells of it. Clients that retry what failed heed `x-should-retry: false`; others of 503 and 429
/// carry Retry-After.
HttpResponse ErrorResponse(const ApiError& error);

}  // namespace quire
