// The part of BatchRunner that runs single requests.
#include <algorithm>
#include <charconv>
#include <utility>

#include "coordinator/api/batches/active_batch.h"
#include "coordinator/api/batches/on_disk.h"
#include "coordinator/api/batches/spilled_answer.h"
#include "coordinator/api/batches/store_names.h"
#include "coordinator/batches/batch_line.h"

// g++ 12 miscompiles some co_await expressions, so the coroutines in this file avoid such expressions
// (coordinator/http/connection.cc).

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr int kMostFailures = 3;  // tries of a request that fail for reasons of the server, other than lack of capacity
constexpr int64_t kLongestPutOff = 60;

std::string HeaderOf(const HttpResponse& answer, std::string_view name) {
  for (const auto& [key, value] : answer.headers) {
    if (key == name) return value;
  }
  return "";
}

/// Returns the seconds in the answer's Retry-After, limited to 1 to kLongestPutOff; 1 when the answer has no such
/// header.
int64_t RetryAfter(const HttpResponse& answer) {
  const std::string text = HeaderOf(answer, "Retry-After");
  int64_t seconds = 1;
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return std::clamp<int64_t>(seconds, 1, kLongestPutOff);
}

}  // namespace

/// Tries a request of the batch once. If the request gets no result, it becomes the batch's next pending request again.
asio::awaitable<void> BatchRunner::RunLine(ActivePtr batch, LinePlace place) {
  const bool recorded = co_await TryLine(batch, place);
  if (!recorded) batch->pending.push_front(place);
  --in_flight_;
  --batch->in_flight;
  if (timer_ != nullptr) timer_->cancel();
}

/// Asks the data port for a request's answer, and records the result. Returns false when the request has no result yet.
asio::awaitable<bool> BatchRunner::TryLine(ActivePtr batch, const LinePlace& place) {
  struct Asked {
    std::string custom_id, body;
  };
  std::function<Asked()> read = [this, id = batch->id, place] {
    const std::string line = store_.ReadLine(id, place);
    BatchLine parsed = ReadBatchLine(line, "line");
    return Asked{std::move(parsed.custom_id), std::string(parsed.body)};
  };
  std::optional<Asked> asked = co_await TryOnDisk<Asked>(disk_, batch->client, std::move(read));
  if (!asked) {
    batch->rests_until = Clock::now() + kAfterFailure;
    co_return false;
  }
  const std::string request_id = NewStoredId("req_");
  const auto spilled = std::make_shared<SpilledAnswer>(store_, disk_, batch->client);
  std::optional<HttpResponse> answer = co_await Ask(batch, std::move(asked->body), request_id, spilled);
  if (!answer || batch->stopping || PutOff(*batch, place, *answer)) co_return false;
  const auto line = std::make_shared<ResultLine>();
  line->begin = BatchAnswerBegin(NewStoredId("batch_req_"), asked->custom_id, answer->status, request_id);
  line->spilled = spilled->draft();
  line->end = std::move(answer->body);
  line->end += kBatchAnswerEnd;
  co_await Record(batch, answer->status == 200, line);
  co_return true;
}

/// Gives a request to the data port, as if the request had come over a connection, and returns the answer. Returns
/// nothing when the runner stopped the request. `request_id`: the request's id in the server's records and in the
/// result line. `spilled` takes the text of a long answer.
asio::awaitable<std::optional<HttpResponse>> BatchRunner::Ask(ActivePtr batch, std::string body, std::string request_id,
                                                              std::shared_ptr<SpilledAnswer> spilled) {
  LineResponder responder([spilled](std::string text) { return spilled->Take(std::move(text)); });
  responder.record.id = request_id;
  HttpRequest request{.method = "POST", .path = batch->endpoint, .body = std::move(body)};
  request.body_bytes = request.body.size();
  request.client = batch->client;
  request.share = batch->client.empty() ? "batches" : batch->client;
  request.background = true;
  std::optional<HttpResponse> refusal = port_->Admit(request);
  if (refusal) co_return refusal;
  batch->responders.push_back(&responder);
  co_await port_->Handle(request, responder);
  std::erase(batch->responders, &responder);
  if (responder.was_stopped()) co_return std::nullopt;
  co_return responder.Take();
}

/// True when the request must be tried again: after each refusal for lack of capacity (429, 503), and after at most
/// kMostFailures other errors of the server (5xx). An answer with x-should-retry "false" is final. The batch begins no
/// request for the seconds in Retry-After.
bool BatchRunner::PutOff(Active& batch, const LinePlace& place, const HttpResponse& answer) {
  if (answer.status != 429 && answer.status < 500) return false;
  if (HeaderOf(answer, "x-should-retry") == "false") return false;
  const bool lacks_room = answer.status == 429 || answer.status == 503;
  if (!lacks_room && ++batch.failures[place.number] > kMostFailures) return false;
  batch.rests_until = std::max(batch.rests_until, Clock::now() + std::chrono::seconds(RetryAfter(answer)));
  return true;
}

/// Records a request's result on the disk (`well`: the request succeeded). While the disk fails, waits and tries again,
/// so that no result is lost.
asio::awaitable<void> BatchRunner::Record(ActivePtr batch, bool well, std::shared_ptr<ResultLine> line) {
  for (;;) {
    std::function<bool()> record = [this, id = batch->id, well, line] {
      line->end = OnOneLine(std::move(line->end));
      store_.Record(id, well, *line);
      return true;
    };
    const std::optional<bool> recorded = co_await TryOnDisk<bool>(disk_, batch->client, std::move(record));
    if (recorded) co_return;
    co_await Pause(kAfterFailure);
  }
}

}  // namespace quire
