#include "coordinator/api/openai/response_pages.h"

#include <memory>

#include "coordinator/api/requests/api_error.h"

namespace quire {

namespace {

constexpr std::string_view kPath = "/v1/responses/", kOne = "/v1/responses/*";

std::string IdOf(const HttpRequest& request) { return request.path.substr(kPath.size()); }

/// Another client's answer looks like one that there never was.
ApiError NotKept(const std::string& id, const char* param) {
  return {404, "no response " + id.substr(0, 100) + " is kept for this key: the latest ones are, until the server ends",
          param};
}

}  // namespace

std::vector<Routes<DataHandler>::Route> ResponsePages::MakeRoutes() {
  return {{"GET", kOne, At([this](HttpRequest& request) { return Get(request); })},
          {"DELETE", kOne, At([this](const HttpRequest& request) { return Delete(request); })}};
}

FindConversation ResponsePages::FinderFor(const std::string& client) {
  return [this, client](const std::string& id) {
    const std::shared_ptr<const StoredResponse> found = store_.Find(client, id);
    if (found == nullptr) throw NotKept(id, "previous_response_id");
    return found->conversation;
  };
}

HttpResponse ResponsePages::Get(HttpRequest& request) {
  if (!request.query.empty()) throw ApiError(400, "this endpoint takes no query: answers are not streamed again");
  const std::string id = IdOf(request);
  const std::shared_ptr<const StoredResponse> found = store_.Find(request.client, id);
  if (found == nullptr) throw NotKept(id, "");
  if (request.method == "HEAD") return {.length = found->response.size()};
  constexpr int64_t kCopies = 2;  // with its head, too
  const auto bytes = kCopies * static_cast<int64_t>(found->response.size());
  if (auto refusal = charge_(request.memory, request.client, bytes)) return std::move(*refusal);
  return {200, "application/json", found->response, {}};
}

HttpResponse ResponsePages::Delete(const HttpRequest& request) {
  const std::string id = IdOf(request);
  if (!store_.Erase(request.client, id)) throw NotKept(id, "");
  return JsonResponse({{"id", id}, {"object", "response"}, {"deleted", true}});
}

}  // namespace quire
