#include "coordinator/http/api_error.h"

#include <fmt/format.h>

namespace quire {

ApiError ContextLengthError(int max_model_len, const std::string& rest, std::string param) {
  ApiError error(400, fmt::format("This model's maximum context length is {} tokens; {}", max_model_len, rest),
                 std::move(param));
  error.code = "context_length_exceeded";
  return error;
}

HttpResponse ErrorResponse(const ApiError& error) {
  HttpResponse response = ErrorResponse(error.status, error.what(), error.param, error.code);
  if (error.retry_in_vain)
    response.headers.emplace_back("x-should-retry", "false");
  else if (error.status == 503 || error.status == 429)
    response.headers.emplace_back("Retry-After", "1");
  return response;
}

}  // namespace quire
