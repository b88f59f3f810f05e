#include "coordinator/api/openai/data_port.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "comm/base/error.h"
#include "comm/wire/messages.h"
#include "coordinator/api/access/authenticate.h"
#include "coordinator/api/openai/on_pool.h"
#include "coordinator/api/requests/json_fields.h"
#include "coordinator/api/requests/structured_output.h"
#include "coordinator/log/log.h"
#include "coordinator/web/web_pages.h"

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr size_t kWorkHereBytes = 4 << 10;  // a smaller body costs less than 1 ms, so it is prepared on the I/O thread

bool Generates(const HttpRequest& request) { return request.method == "POST" && DialectOf(request.path); }

}  // namespace

DataPort::DataPort(Options options, ModelRoster& models, Metrics& metrics, Means means)
    : options_(std::move(options)),
      models_(models),
      metrics_(metrics),
      means_(means),
      desks_(models, metrics, means.pool),
      pages_(desks_, means_.pool, Charging(), TakingTokens()),
      responses_(Charging()),
      quotas_(options_.key_limits, desks_.max_running()),
      routes_(MakeRoutes()) {}

/// Returns a function that calls Charge, for the objects that answer some of the endpoints.
PageApi::Charge DataPort::Charging() {
  return [this](ByteBudget::Lease& memory, const std::string& client, int64_t bytes) {
    return Charge(memory, client, bytes);
  };
}

/// Returns a function that calls TakeTokens, for the endpoints that generate nothing.
PageApi::TakeTokens DataPort::TakingTokens() {
  return [this](const std::string& client, size_t body_bytes) { return TakeTokens(client, body_bytes); };
}

std::optional<HttpResponse> DataPort::TakeTokens(const std::string& client, size_t body_bytes) {
  std::optional<HttpResponse> refusal = RefuseForQuota(client, 0);
  if (refusal) return refusal;
  if (const auto meter = quotas_.Meter(client)) *meter += KeyQuotas::TokensOfBody(body_bytes);
  return std::nullopt;
}

Routes<DataHandler> DataPort::MakeRoutes() {
  const DataHandler generate = [this](HttpRequest& request, HttpResponder& responder) {
    return Generate(request, responder, *DialectOf(request.path));
  };
  const auto alive = At([](const HttpRequest&) { return JsonResponse(Json::object()); });
  std::vector<Routes<DataHandler>::Route> routes = {
      {"POST", "/v1/completions", generate},
      {"POST", "/v1/chat/completions", generate},
      {"POST", "/v1/messages", generate},
      {"POST", "/v1/responses", generate},
      {"POST", "/v1/embeddings", generate},
      {"POST", "/v1/rerank", generate},
      {"POST", "/v2/rerank", generate},
      {"POST", "/rerank", generate},
      {"POST", "/v1/score", generate},
      {"POST", "/score", generate},
      {"POST", "/classify", generate},
      {"POST", "/v1/classify", generate},
      {"POST", "/pooling", generate},
      {"POST", "/v1/pooling", generate},
      {"GET", "/health", alive},
      {"GET", "/ping", alive},
      {"POST", "/ping", alive},
      {"GET", "/ready", At([this](const HttpRequest&) { return Readiness(); })},
      {"GET", "/load", At([this](const HttpRequest&) {
         return JsonResponse({{"server_load", desks_.num_pending()}});
       })},
  };
  std::ranges::move(pages_.MakeRoutes(), std::back_inserter(routes));
  std::ranges::move(responses_.MakeRoutes(), std::back_inserter(routes));
  std::ranges::copy(options_.more_routes, std::back_inserter(routes));
  // Some coding agents send requests to these paths to find out whether the server runs.
  routes.push_back({"GET", "/api/hello", alive});
  if (!options_.chat_page) routes.push_back({"GET", "/", alive});
  if (options_.chat_page) {
    const auto page = At([](const HttpRequest& request) { return WebFile(WebPage::kChat, request.path); });
    for (const char* path : {"/", "/chat", kWebFiles}) routes.push_back({"GET", path, page});
  }
  return Routes<DataHandler>(std::move(routes));
}

std::optional<HttpResponse> DataPort::Admit(HttpRequest& head) {
  if (std::optional<HttpResponse> refusal = routes_.Refusal(head)) return refusal;
  if (std::optional<HttpResponse> refusal = RefuseForeignType(head)) return refusal;
  if (Generates(head)) {
    if (!HasRoom(head.client)) return RefuseForLoad(desks_.first(), head.client, 1);
  }
  head.memory = means_.memory.For(head.client);
  return Charge(head.memory, head.client, static_cast<int64_t>(head.body_bytes));
}

std::optional<HttpResponse> DataPort::Charge(ByteBudget::Lease& memory, const std::string& client, int64_t bytes) {
  const ByteBudget::Verdict verdict = memory.Admit(bytes);
  if (verdict == ByteBudget::Verdict::kTaken) return std::nullopt;
  metrics_.calls(0).CountRejection("memory_bytes");  // the body was not read, so its model is not known
  const char* limit = client.empty() ? "memory_bytes" : "memory_bytes_per_client";
  if (verdict == ByteBudget::Verdict::kNever) {
    return ErrorResponse(400,
                         fmt::format("the request may need {} bytes of the server's memory, at most {} are allowed "
                                     "(server.limits.{}); ask for fewer choices, tokens or log-probabilities",
                                     bytes, means_.memory.MostFor(client), limit));
  }
  HttpResponse response = ErrorResponse(429, "the server's memory for requests is taken; try again later");
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

asio::awaitable<void> DataPort::Handle(HttpRequest& request, HttpResponder& responder) {
  // A coroutine cannot await inside a catch block, so the error is sent after the catch blocks.
  HttpResponse failure;
  if (IsOfMessages(request.path)) request.answer_headers.emplace_back("request-id", responder.record.id);
  try {
    const DataHandler* handler = routes_.Find(request);
    QUIRE_CHECK(handler != nullptr, "{} {} was admitted", request.method, request.path);
    co_await (*handler)(request, responder);
    co_return;
  } catch (const ApiError& error) {
    failure = ErrorResponse(InWordsOf(DialectOf(request.path).value_or(Dialect::kChat), error));
  } catch (const Error& error) {
    failure = ErrorResponse(400, error.what());
  } catch (const std::exception& error) {
    const LogField of_request("request_id", responder.record.id);
    spdlog::error("{} {}: {}", request.method, request.path, error.what());
    failure = ErrorResponse(500, "internal error; the server's log says which");  // the exception's text may name files
  }
  co_await responder.Send(std::move(failure));
}

HttpResponse DataPort::Readiness() const {
  if (models_.ready() && !draining_ && !paused_) return JsonResponse(Json::object());
  HttpResponse response = ErrorResponse(503, draining_ ? "draining" : paused_ ? "paused" : "not serving");
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

bool DataPort::HasRoom(const std::string& client) const {
  if (draining_) return false;
  for (size_t i = 0; i < desks_.size(); ++i) {
    const ModelDesk& desk = desks_.at(i);
    if (desk.model.state() != ModelState::kLost && desk.places.RoomFor(client) > 0) return true;
  }
  return false;
}

std::optional<HttpResponse> DataPort::RefuseForLoad(ModelDesk& desk, const std::string& client, int choices_to_come) {
  const ModelState state = desk.model.state();
  HttpResponse response;
  if (draining_ || state == ModelState::kLost) {
    response = ErrorResponse(503, draining_ ? "the server is shutting down" : "the worker group is lost");
  } else if (desk.places.RoomFor(client) < choices_to_come) {
    desk.metrics.CountRejection("max_num_queued_reqs");
    response = state == ModelState::kRestarting ? ErrorResponse(503, "the workers are being replaced; try again later")
                                                : ErrorResponse(429, "too many requests are waiting; try again later");
  } else {
    return std::nullopt;
  }
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

std::optional<HttpResponse> DataPort::RefuseForQuota(const std::string& client, int choices) {
  std::optional<HttpResponse> refusal = quotas_.Refuse(client, choices);
  if (refusal) metrics_.calls(0).CountRejection("key_limits");
  return refusal;
}

/// Parses and tokenises the body. Returns nullopt when the client left meanwhile. Short bodies of completions and
/// embeddings are prepared on the I/O thread, except when the tokenizer splits text with a model's own patterns, or
/// when the body may have a grammar, because a few bytes of grammar can take a second. All other bodies go to the pool.
/// The size of a chat's body does not bound the cost of its template. A body of /v1/responses may continue a stored
/// answer, so its size includes the longest stored conversation of the client.
asio::awaitable<std::optional<PreparedCall>> DataPort::Prepare(const ModelDesk& desk, HttpRequest& request,
                                                               HttpResponder& responder, Dialect dialect) {
  const size_t size = request.body.size();
  const int room = desk.places.RoomFor(request.client) + 1;  // + 1: this call is counted already
  const bool here = size <= kWorkHereBytes && (dialect == Dialect::kCompletions || dialect == Dialect::kEmbeddings) &&
                    desk.model.text().tokenizer.is_linear() && !MayAskForForm(request.body);
  const bool refers = dialect == Dialect::kResponses && request.body.find("item_reference") != std::string::npos;
  std::function<PreparedCall(const std::stop_token&)> work =
      [&desk, dialect, room, find = responses_.FinderFor(request.client, refers), id = responder.record.id,
       body = std::exchange(request.body, {})](const std::stop_token& stop) {
        const LogField of_request("request_id", id);
        return desk.preparer.Prepare(body, dialect, find, room, stop);
      };
  if (here) co_return work({});
  size_t kept = dialect == Dialect::kResponses ? responses_.store().LongestConversation(request.client) : 0;
  if (kept > 0 && refers) kept += kMostReferredBytes;
  std::optional<PreparedCall> prepared =
      co_await OnPool(means_.pool, responder, request.share, size + kept, std::move(work));
  if (prepared) prepared->call.client = request.client;
  co_return prepared;
}

namespace {

/// Compiles the grammar on trial. Charges the job's client with the processor time of the trial, and with that of the
/// ranks, each of which compiles a correct grammar again.
void TryAndCharge(ServedModel& model, const GrammarSource& source, const std::stop_token& stop) {
  GrammarTrials& trials = model.grammars();
  const auto before = trials.spent();
  try {
    trials.Try(source, stop);
  } catch (...) {
    WorkPool::ChargeAlso(trials.spent() - before);
    throw;
  }
  WorkPool::ChargeAlso((trials.spent() - before) * (1 + model.topology().parallel.num_ranks()));
}

}  // namespace

/// Compiles the call's grammar, if it has one, as the workers will do. Returns false when the client has left
/// meanwhile. Grammars have their own thread, where clients take turns, so that no other work waits for them.
asio::awaitable<bool> DataPort::TryGrammar(ModelDesk& desk, const GenerateCall& call, const std::string& share,
                                           HttpResponder& responder) {
  if (!call.sampling.grammar) co_return true;
  std::function<bool(const std::stop_token&)> work = [&desk, source = call.sampling.grammar,
                                                      field = call.grammar_field](const std::stop_token& stop) {
    try {
      TryAndCharge(desk.model, source, stop);
    } catch (const Error& error) {
      JsonFields::Refuse(field.c_str(), error.what());
    }
    return true;
  };
  const std::optional<bool> tried = co_await OnPool(means_.grammar_pool, responder, share, 0, std::move(work));
  co_return tried.has_value();
}

}  // namespace quire
