#include "coordinator/api/openai/data_handler.h"

#include <utility>

#include "comm/base/json.h"

namespace quire {

namespace asio = boost::asio;

DataHandler At(std::function<HttpResponse(HttpRequest&)> answer) {
  return [answer = std::move(answer)](HttpRequest& request, HttpResponder& responder) -> asio::awaitable<void> {
    HttpResponse response = answer(request);
    co_await responder.Send(std::move(response));
  };
}

HttpResponse JsonResponse(const Json& json) { return {200, "application/json", DumpJson(json), {}}; }

}  // namespace quire
