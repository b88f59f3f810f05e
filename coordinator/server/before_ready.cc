#include "coordinator/server/before_ready.h"

namespace quire {

HttpResponse NotReady() {
  HttpResponse response = ErrorResponse(503, "the workers are not ready yet");
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

HttpResponse AnswerBeforeReady(const HttpRequest& request) {
  if (request.path != "/health" && request.path != "/ping") return NotReady();
  HttpResponse alive;
  alive.body = "{}";
  return alive;
}

}  // namespace quire
