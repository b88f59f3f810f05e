#include "coordinator/api/openai/response_pages.h"

#include <algorithm>
#include <memory>
#include <string>

#include "comm/base/json.h"
#include "coordinator/http/api_error.h"

namespace quire {

namespace {

constexpr std::string_view kPath = "/v1/responses/", kOne = "/v1/responses/*", kInputEnd = "/input_items";

std::string IdOf(const HttpRequest& request) { return request.path.substr(kPath.size()); }

/// Returns the error for an unknown id. The id of another client's answer gets the same error.
ApiError NotKept(const std::string& id, const char* param) {
  return {404, "no response " + id.substr(0, 100) + " is kept for this key: the latest ones are, until the server ends",
          param};
}

constexpr size_t kMostBytesRead = 64 << 20;  // most bytes of answers whose items one request may refer to

/// Finds an item in a stored answer's output. Throws ApiError 404 when the answer or the item is gone.
std::string ItemOf(const StoredResponse* response, const std::string& item_id) {
  const OrderedJson kept = response == nullptr ? OrderedJson::object() : OrderedJson::parse(response->response);
  for (const OrderedJson& item : kept.value("output", OrderedJson::array())) {
    if (item["id"] == item_id) return item.dump();
  }
  throw ApiError(404,
                 "no item " + item_id.substr(0, 100) +
                     " is kept for this key: those of the latest answers are, until the server ends; send it itself",
                 "input");
}

}  // namespace

std::vector<Routes<DataHandler>::Route> ResponsePages::MakeRoutes() {
  return {{"GET", kOne, At([this](HttpRequest& request) {
             return request.path.ends_with(kInputEnd) ? ListInput(request) : Get(request);
           })},
          {"DELETE", kOne, At([this](const HttpRequest& request) { return Delete(request); })}};
}

FindKept ResponsePages::FinderFor(const std::string& client, bool items) {
  return [this, client, items, read = size_t{0}](const std::string& id, const std::string& item_id) mutable {
    const std::shared_ptr<const StoredResponse> found = store_.Find(client, id);
    if (item_id.empty() && found == nullptr) throw NotKept(id, "previous_response_id");
    if (item_id.empty()) return found->conversation;
    read += found == nullptr ? 0 : found->response.size();
    if (read > kMostBytesRead)
      throw ApiError(400, "input refers to items of too many answers; send some themselves", "input");
    return ItemOf(items ? found.get() : nullptr, item_id);
  };
}

HttpResponse ResponsePages::Get(HttpRequest& request) {
  if (!request.query.empty()) throw ApiError(400, "this endpoint takes no query: answers are not streamed again");
  const std::string id = IdOf(request);
  const std::shared_ptr<const StoredResponse> found = store_.Find(request.client, id);
  if (found == nullptr) throw NotKept(id, "");
  if (request.method == "HEAD") return {.length = found->response.size()};
  constexpr int64_t kCopies = 2;  // number of copies: the stored one, and one with the answer's head
  const auto bytes = kCopies * static_cast<int64_t>(found->response.size());
  if (auto refusal = charge_(request.memory, request.client, bytes)) return std::move(*refusal);
  return {200, "application/json", found->response, {}};
}

/// Returns a page of the items in the request that led to an answer. Items of earlier requests are not included.
HttpResponse ResponsePages::ListInput(HttpRequest& request) {
  std::string id = IdOf(request);
  id.resize(id.size() - std::min(id.size(), kInputEnd.size()));
  const PageQuery query = ParseInputItemsQuery(request.query);
  const std::shared_ptr<const StoredResponse> found = store_.Find(request.client, id);
  if (found == nullptr) throw NotKept(id, "");
  constexpr int64_t kCopies = 2;  // the stored answer, and a copy with the answer's head
  const int64_t bytes = kCopies * BytesOf(found->input);
  if (auto refusal = charge_(request.memory, request.client, bytes)) return std::move(*refusal);
  HttpResponse response{200, "application/json", PageOfInputItems(found->input, query), {}};
  if (request.method == "HEAD") return {.length = response.body.size()};
  return response;
}

HttpResponse ResponsePages::Delete(const HttpRequest& request) {
  const std::string id = IdOf(request);
  if (!store_.Erase(request.client, id)) throw NotKept(id, "");
  return JsonResponse({{"id", id}, {"object", "response"}, {"deleted", true}});
}

}  // namespace quire
