#include "coordinator/api/batches/batch_pages.h"

#include <string>
#include <string_view>
#include <utility>

#include "coordinator/api/batches/batch_terms.h"
#include "coordinator/api/batches/on_disk.h"
#include "coordinator/api/batches/record_list.h"
#include "coordinator/api/requests/query_fields.h"

// g++ 12 miscompiles some co_await expressions, so the coroutines in this file avoid such expressions
// (coordinator/http/connection.cc).

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr std::string_view kBatchesPath = "/v1/batches/", kCancelEnd = "/cancel";
constexpr size_t kUsuallyListed = 20, kMostBatchesListed = 100;  // batches on one page: default and maximum

}  // namespace

std::vector<Routes<DataHandler>::Route> BatchPages::MakeRoutes() {
  return {{"POST", "/v1/batches", AnsweredBy(this, &BatchPages::Create)},
          {"GET", "/v1/batches", AnsweredBy(this, &BatchPages::List)},
          {"GET", "/v1/batches/*", AnsweredBy(this, &BatchPages::Get)},
          {"POST", "/v1/batches/*", AnsweredBy(this, &BatchPages::Cancel)}};
}

asio::awaitable<void> BatchPages::Answer(HttpRequest& request, HttpResponder& responder,
                                         std::function<std::string()> work, bool changes) {
  std::string text = co_await OnDisk<std::string>(disk_, request.share, std::move(work));
  if (!changes) {
    co_await SendCharged(request, responder, std::move(text));
    co_return;
  }
  changed_();  // these answers are small, and the work is done: memory must not refuse the answer
  HttpResponse response;
  response.body = std::move(text);
  co_await responder.Send(std::move(response));
}

asio::awaitable<void> BatchPages::Create(HttpRequest& request, HttpResponder& responder) {
  std::function<std::string()> work = [this, client = request.client, body = std::exchange(request.body, {})] {
    return Listed(store_.CreateBatch(client, ReadBatchTerms(body)));
  };
  co_await Answer(request, responder, std::move(work), true);
}

asio::awaitable<void> BatchPages::List(HttpRequest& request, HttpResponder& responder) {
  const QueryFields query(request.query, {"after", "limit"});
  const int64_t limit = query.Integer("limit", 1, kMostBatchesListed).value_or(kUsuallyListed);
  const PageQuery asked{.after = query.Text("after"), .limit = static_cast<size_t>(limit), .oldest_first = false};
  std::function<std::string()> work = [this, client = request.client, asked] {
    return PageOfRecords(store_.BatchesOf(client), asked);
  };
  co_await Answer(request, responder, std::move(work), false);
}

asio::awaitable<void> BatchPages::Get(HttpRequest& request, HttpResponder& responder) {
  std::function<std::string()> work = [this, client = request.client, id = request.path.substr(kBatchesPath.size())] {
    return DumpJson(store_.FindBatch(client, id).ToPublic());
  };
  co_await Answer(request, responder, std::move(work), false);
}

asio::awaitable<void> BatchPages::Cancel(HttpRequest& request, HttpResponder& responder) {
  std::string id = request.path.substr(kBatchesPath.size());
  if (!id.ends_with(kCancelEnd)) throw ApiError(404, "there is no such endpoint; /v1/batches/ID/cancel takes POST");
  id.resize(id.size() - kCancelEnd.size());
  std::function<std::string()> work = [this, client = request.client, id] {
    return Listed(store_.CancelBatch(client, id));
  };
  co_await Answer(request, responder, std::move(work), true);
}

}  // namespace quire
