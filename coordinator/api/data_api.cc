#include "coordinator/api/data_api.h"

#include <spdlog/spdlog.h>

#include <boost/beast/core/string.hpp>
#include <ctime>
#include <utility>

#include "comm/error.h"
#include "comm/messages.h"
#include "coordinator/api/json_fields.h"
#include "coordinator/api/on_pool.h"
#include "coordinator/web/web_pages.h"

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr size_t kWorkHereBytes =
    4 << 10;  // bodies that cost less than a millisecond: no thread need be woken for them

HttpResponse JsonResponse(const Json& json) { return {200, "application/json", DumpJson(json), {}}; }

/// A page of another site can post text or forms to a local server without asking; JSON it cannot.
bool IsForeignType(const HttpRequest& request) {
  const std::string value = request.Header("content-type");
  std::string_view type = std::string_view(value).substr(0, value.find(';'));  // without parameters
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  return request.method == "POST" && !value.empty() && !boost::beast::iequals(type, "application/json");
}

bool Generates(const HttpRequest& request) {
  return request.method == "POST" && (request.path == "/v1/completions" || request.path == "/v1/chat/completions");
}

/// An endpoint that answers at once.
DataHandler At(std::function<HttpResponse(HttpRequest&)> answer) {
  return [answer = std::move(answer)](HttpRequest& request, HttpResponder& responder) -> asio::awaitable<void> {
    HttpResponse response = answer(request);
    co_await responder.Send(std::move(response));
  };
}

}  // namespace

DataApi::DataApi(Options options, GenerationContext context, const ChatTemplate* chat, Metrics& metrics, Means means)
    : options_(std::move(options)),
      context_(std::move(context)),
      metrics_(metrics),
      means_(means),
      preparer_({options_.model_name, options_.request, options_.no_chat_reason, options_.max_pending_requests,
                 options_.answer_format, options_.chosen_format},
                context_.tokenizer, chat, means_.grammars),
      text_pages_(context_.tokenizer, options_.request.vocab_size, options_.request.max_model_len),
      quotas_(options_.key_limits, options_.max_running),
      places_(options_.max_pending_requests),
      created_(std::time(nullptr)),
      routes_(MakeRoutes()) {}

Routes<DataHandler> DataApi::MakeRoutes() {
  const auto generate = [this](bool chat) {
    return [this, chat](HttpRequest& request, HttpResponder& responder) { return Generate(request, responder, chat); };
  };
  const DataHandler text = [this](HttpRequest& request, HttpResponder& responder) -> asio::awaitable<void> {
    std::optional<HttpResponse> page = co_await TextPage(request, responder);
    if (!page) co_return;  // nobody waits for it any more
    HttpResponse response = std::move(*page);
    co_await responder.Send(std::move(response));
  };
  const auto alive = At([](const HttpRequest&) { return JsonResponse(Json::object()); });
  std::vector<Routes<DataHandler>::Route> routes = {
      {"POST", "/v1/completions", generate(false)},
      {"POST", "/v1/chat/completions", generate(true)},
      {"GET", "/v1/models", At([this](const HttpRequest&) { return Models(""); })},
      {"GET", "/v1/models/*", At([this](const HttpRequest& request) { return Models(request.path.substr(11)); })},
      {"POST", "/tokenize", text},
      {"POST", "/detokenize", text},
      {"GET", "/tokenizer_info", At([this](HttpRequest& request) { return TokenizerInfo(request); })},
      {"GET", "/version", At([](const HttpRequest&) {
         return JsonResponse({{"version", kBuildVersion}});
       })},
      {"GET", "/health", alive},
      {"GET", "/ping", alive},
      {"GET", "/ready", At([this](const HttpRequest&) { return Readiness(); })},
      {"GET", "/load", At([this](const HttpRequest&) {
         return JsonResponse({{"server_load", places_.taken()}});
       })},
  };
  if (options_.chat_page) {
    const auto page = At([](const HttpRequest& request) { return WebFile(WebPage::kChat, request.path); });
    for (const char* path : {"/", "/chat", kWebFiles}) routes.push_back({"GET", path, page});
  }
  return Routes<DataHandler>(std::move(routes));
}

std::optional<HttpResponse> DataApi::Admit(HttpRequest& head) {
  if (std::optional<HttpResponse> refusal = routes_.Refusal(head)) return refusal;
  if (IsForeignType(head)) return ErrorResponse(415, "the Content-Type must be application/json");
  if (Generates(head)) {
    if (std::optional<HttpResponse> refusal = RefuseForLoad(head.client, 1)) return refusal;
  }
  head.memory = means_.memory.For(head.client);
  return Charge(head.memory, head.client, static_cast<int64_t>(head.body_bytes));
}

std::optional<HttpResponse> DataApi::Charge(ByteBudget::Lease& memory, const std::string& client, int64_t bytes) {
  const ByteBudget::Verdict verdict = memory.Resize(bytes);
  if (verdict == ByteBudget::Verdict::kTaken) return std::nullopt;
  metrics_.CountRejection("memory_bytes");
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

asio::awaitable<void> DataApi::Handle(HttpRequest& request, HttpResponder& responder) {
  // A coroutine cannot await inside a catch block.
  HttpResponse failure;
  try {
    const DataHandler* handler = routes_.Find(request);
    QUIRE_CHECK(handler != nullptr, "{} {} was admitted", request.method, request.path);
    co_await (*handler)(request, responder);
    co_return;
  } catch (const ApiError& error) {
    failure = ErrorResponse(error);
  } catch (const Error& error) {
    failure = ErrorResponse(400, error.what());
  } catch (const std::exception& error) {
    spdlog::error("{} {}: {}", request.method, request.path, error.what());
    failure = ErrorResponse(500, "internal error; the server's log says which");  // what() may name files
  }
  co_await responder.Send(std::move(failure));
}

HttpResponse DataApi::Readiness() const {
  const bool ready = context_.replicas.ready() && !draining_;
  return ready ? JsonResponse(Json::object()) : ErrorResponse(503, "not serving");
}

HttpResponse DataApi::Models(const std::string& id) const {
  const Json model = {{"id", options_.model_name},   {"object", "model"},
                      {"created", created_},         {"owned_by", "quire"},
                      {"root", options_.model_name}, {"parent", nullptr},
                      {"permission", Json::array()}, {"max_model_len", options_.request.max_model_len}};
  if (id.empty()) return JsonResponse({{"object", "list"}, {"data", Json::array({model})}});
  if (id != options_.model_name)
    return ErrorResponse(404, "the model \"" + id.substr(0, 100) + "\" is not served here", "model");
  return JsonResponse(model);
}

/// Nothing when the client went meanwhile.
asio::awaitable<std::optional<HttpResponse>> DataApi::TextPage(HttpRequest& request, HttpResponder& responder) {
  const bool tokenize = request.path == "/tokenize";
  const size_t size = request.body.size();
  const int64_t bytes = tokenize ? text_pages_.TokenizeBytes(size) : text_pages_.DetokenizeBytes(size);
  std::optional<HttpResponse> refusal = Charge(request.memory, request.client, bytes);
  if (refusal) co_return refusal;
  std::function<std::string(const std::stop_token&)> work =
      [this, tokenize, body = std::exchange(request.body, {})](const std::stop_token& stop) {
        return tokenize ? text_pages_.Tokenize(body, stop) : text_pages_.Detokenize(body, stop);
      };
  std::optional<std::string> text;
  if (size <= kWorkHereBytes && (!tokenize || context_.tokenizer.is_linear())) {
    text = work({});
  } else {
    text = co_await OnPool(means_.pool, responder, request.client, size, std::move(work));
  }
  if (!text) co_return std::nullopt;
  HttpResponse page;
  page.body = std::move(*text);
  (void)request.memory.Resize(std::min(bytes, static_cast<int64_t>(page.body.capacity())));
  co_return page;
}

HttpResponse DataApi::TokenizerInfo(HttpRequest& request) {
  const TokenizerData& data = context_.tokenizer.data();
  constexpr int64_t kOthers = 4096, kTreeAndText = 1 + 6;  // JSON may spell one byte with six
  const auto bytes = kOthers + kTreeAndText * static_cast<int64_t>(data.chat_template.size());
  if (auto refusal = Charge(request.memory, request.client, bytes)) return std::move(*refusal);
  return JsonResponse({{"bos_token", data.bos_token},
                       {"eos_token", data.eos_token},
                       {"pad_token", data.pad_token},
                       {"chat_template", data.chat_template.empty() ? Json() : Json(data.chat_template)}});
}

std::optional<HttpResponse> DataApi::RefuseForLoad(const std::string& client, int choices_to_come) {
  HttpResponse response;
  if (draining_ || !context_.replicas.serving()) {
    response = ErrorResponse(503, draining_ ? "the server is shutting down" : "the worker group is lost");
  } else if (places_.RoomFor(client) < choices_to_come) {
    metrics_.CountRejection("max_num_queued_reqs");
    response = !context_.replicas.ready() ? ErrorResponse(503, "the workers are being replaced; try again later")
                                          : ErrorResponse(429, "too many requests are waiting; try again later");
  } else {
    return std::nullopt;
  }
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

std::optional<HttpResponse> DataApi::RefuseForQuota(const std::string& client, int choices) {
  std::optional<HttpResponse> refusal = quotas_.Refuse(client, choices);
  if (refusal) metrics_.CountRejection("key_limits");
  return refusal;
}

/// Nothing when the client went meanwhile. Chat goes to the pool however short it is: what its template does with it is
/// not bounded by its length. So does all text that patterns of the model's own cut.
asio::awaitable<std::optional<PreparedCall>> DataApi::Prepare(HttpRequest& request, HttpResponder& responder,
                                                              bool chat) {
  const size_t size = request.body.size();
  const int room = places_.RoomFor(request.client) + 1;  // its own place is taken already
  std::function<PreparedCall(const std::stop_token&)> work =
      [this, chat, room, body = std::exchange(request.body, {})](const std::stop_token& stop) {
        return preparer_.Prepare(body, chat, room, stop);
      };
  if (size <= kWorkHereBytes && !chat && context_.tokenizer.is_linear()) co_return work({});
  std::optional<PreparedCall> prepared = co_await OnPool(means_.pool, responder, request.client, size, std::move(work));
  co_return prepared;
}

int DataApi::MaxTokens(const GenerateCall& call, size_t longest_prompt) const {
  constexpr int kCompletionDefault = 16, kChatDefault = 4096;
  const int room = options_.request.max_model_len - static_cast<int>(longest_prompt);
  if (room < 1) {
    throw ContextLengthError(options_.request.max_model_len,
                             fmt::format("the prompt has {}, and the answer needs room, too", longest_prompt),
                             call.chat ? "messages" : "prompt");
  }
  if (!call.max_tokens) {
    const int64_t per_choice = options_.pool_tokens / call.best_of - static_cast<int64_t>(longest_prompt);
    const int most = call.chat ? kChatDefault : kCompletionDefault;
    return static_cast<int>(std::max<int64_t>(1, std::min<int64_t>({room, most, per_choice})));
  }
  if (*call.max_tokens > room) {
    throw ContextLengthError(
        options_.request.max_model_len,
        fmt::format("max_tokens {} and the prompt's {} tokens exceed it", *call.max_tokens, longest_prompt),
        "max_tokens");
  }
  return *call.max_tokens;
}

}  // namespace quire
