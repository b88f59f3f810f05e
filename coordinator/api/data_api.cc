#include "coordinator/api/data_api.h"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <ctime>

#include "comm/error.h"
#include "comm/messages.h"
#include "coordinator/api/handoff.h"
#include "coordinator/api/json_fields.h"
#include "coordinator/text/detokenizer.h"

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr size_t kEncodeHereBytes = 64 << 10;  // larger texts would hold up every other connection

HttpResponse JsonResponse(const Json& json) { return {200, "application/json", DumpJson(json), {}}; }

/// A page of another site can post text or forms to a local server without asking; JSON it cannot.
bool IsForeignType(const HttpRequest& request) {
  const std::string type = request.Header("content-type");
  return request.method == "POST" && !type.empty() && !type.starts_with("application/json");
}

bool Generates(const HttpRequest& request) {
  return request.method == "POST" && (request.path == "/v1/completions" || request.path == "/v1/chat/completions");
}

}  // namespace

DataApi::DataApi(Options options, GenerationContext context, const ChatTemplate* chat, Metrics& metrics,
                 ByteBudget& budget)
    : options_(std::move(options)),
      context_(std::move(context)),
      chat_(chat),
      metrics_(metrics),
      budget_(budget),
      created_(std::time(nullptr)) {}

std::optional<HttpResponse> DataApi::Admit(HttpRequest& head) {
  if (IsForeignType(head)) return ErrorResponse(415, "the Content-Type must be application/json");
  const bool text = head.path == "/tokenize" || head.path == "/detokenize";
  if (head.method == "POST" && !text && !Generates(head)) return Page(head);  // its error
  if (Generates(head)) {
    if (std::optional<HttpResponse> refusal = RefuseForLoad(1)) return refusal;
  }
  head.memory = budget_.For(head.client);
  return Charge(head.memory, head.client, static_cast<int64_t>(head.body_bytes));
}

/// Holds so many bytes in all, or says why not.
std::optional<HttpResponse> DataApi::Charge(ByteBudget::Lease& memory, const std::string& client, int64_t bytes) {
  const ByteBudget::Verdict verdict = memory.Resize(bytes);
  if (verdict == ByteBudget::Verdict::kTaken) return std::nullopt;
  metrics_.CountRejection("memory_bytes");
  const char* limit = client.empty() ? "memory_bytes" : "memory_bytes_per_client";
  if (verdict == ByteBudget::Verdict::kNever) {
    return ErrorResponse(400,
                         fmt::format("the request may need {} bytes of the server's memory, at most {} are allowed "
                                     "(server.limits.{}); ask for fewer choices, tokens or log-probabilities",
                                     bytes, budget_.MostFor(client), limit));
  }
  HttpResponse response = ErrorResponse(429, "the server's memory for requests is taken; try again later");
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

asio::awaitable<void> DataApi::Handle(const HttpRequest& request, HttpResponder& responder) {
  // A coroutine cannot await inside a catch block.
  HttpResponse failure;
  try {
    if (Generates(request)) {
      co_await Generate(request, responder, request.path == "/v1/chat/completions");
    } else {
      HttpResponse page = Page(request);
      co_await responder.Send(std::move(page));
    }
    co_return;
  } catch (const ApiError& error) {
    failure = ErrorResponse(error.status, error.what(), error.param);
    if (error.status == 503) failure.headers.emplace_back("Retry-After", "1");
  } catch (const Error& error) {
    failure = ErrorResponse(400, error.what());
  } catch (const std::exception& error) {
    spdlog::error("{} {}: {}", request.method, request.path, error.what());
    failure = ErrorResponse(500, "internal error; the server's log says which");  // what() may name files
  }
  co_await responder.Send(std::move(failure));
}

/// What is answered at once: everything but generation.
HttpResponse DataApi::Page(const HttpRequest& request) const {
  const std::string& path = request.path;
  const bool get = request.method == "GET" || request.method == "HEAD", post = request.method == "POST";
  if (path == "/v1/completions" || path == "/v1/chat/completions") return ErrorResponse(405, "use POST");
  if (path == "/v1/models" && get) return Models("");
  if (path.starts_with("/v1/models/") && get) return Models(path.substr(11));
  if (path == "/tokenize" && post) return Tokenize(request);
  if (path == "/detokenize" && post) return Detokenize(request);
  if (path == "/tokenizer_info" && get) return TokenizerInfo();
  if (path == "/version" && get) return JsonResponse({{"version", kBuildVersion}});
  if ((path == "/health" || path == "/ping") && get) return JsonResponse(Json::object());
  if (path == "/ready" && get) {
    const bool ready = context_.replicas.ready() && !draining_;
    return ready ? JsonResponse(Json::object()) : ErrorResponse(503, "not serving");
  }
  if (path == "/load" && get) return JsonResponse({{"server_load", pending_requests_}});
  return ErrorResponse(404, "no such endpoint: " + path.substr(0, 100));
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

HttpResponse DataApi::Tokenize(const HttpRequest& request) const {
  const Json body = ParseJson(request.body, "body");
  const JsonFields fields(body);
  const auto prompt = fields.Text("prompt");
  if (!prompt) JsonFields::Refuse("prompt", "is missing");
  const auto tokens = context_.tokenizer.EncodePrompt(*prompt, fields.Flag("add_special_tokens", true));
  return JsonResponse(
      {{"tokens", tokens}, {"count", tokens.size()}, {"max_model_len", options_.request.max_model_len}});
}

HttpResponse DataApi::Detokenize(const HttpRequest& request) const {
  const Json body = ParseJson(request.body, "body", {.max_depth = 4, .max_nodes = 200'000});
  const JsonFields fields(body);
  const Json* list = fields.Find("tokens");
  std::vector<TokenId> tokens;
  if (list == nullptr || !list->is_array()) JsonFields::Refuse("tokens", "must be a list of token ids");
  for (const Json& token : *list) {
    if (!token.is_number_integer() || token < 0 || token >= options_.request.vocab_size)
      JsonFields::Refuse("tokens", "must be token ids of this model");
    tokens.push_back(token.get<TokenId>());
  }
  return JsonResponse({{"prompt", Decode(context_.tokenizer, tokens, false)}});
}

HttpResponse DataApi::TokenizerInfo() const {
  const TokenizerData& data = context_.tokenizer.data();
  return JsonResponse({{"bos_token", data.bos_token},
                       {"eos_token", data.eos_token},
                       {"pad_token", data.pad_token},
                       {"chat_template", data.chat_template.empty() ? Json() : Json(data.chat_template)}});
}

std::optional<HttpResponse> DataApi::RefuseForLoad(int choices_to_come) {
  HttpResponse response;
  if (draining_ || !context_.replicas.serving()) {
    response = ErrorResponse(503, draining_ ? "the server is shutting down" : "the worker group is lost");
  } else if (pending_requests_ + choices_to_come > options_.max_pending_requests) {
    metrics_.CountRejection("max_num_queued_reqs");
    response = !context_.replicas.ready() ? ErrorResponse(503, "the workers are being replaced; try again later")
                                          : ErrorResponse(429, "too many requests are waiting; try again later");
  } else {
    return std::nullopt;
  }
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

std::vector<std::vector<TokenId>> DataApi::EncodeHere(const GenerateCall& call) const {
  if (call.chat) {
    if (chat_ == nullptr) throw ApiError(400, "this model cannot chat: " + options_.no_chat_reason);
    return {context_.tokenizer.Encode(chat_->Render(call.messages, call.add_generation_prompt))};
  }
  std::vector<std::vector<TokenId>> prompts;
  for (const PromptInput& prompt : call.prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    prompts.push_back(text != nullptr ? context_.tokenizer.EncodePrompt(*text, call.add_special_tokens)
                                      : std::get<std::vector<TokenId>>(prompt));
  }
  return prompts;
}

asio::awaitable<std::vector<std::vector<TokenId>>> DataApi::Encode(const GenerateCall& call, size_t body_bytes) {
  if (body_bytes <= kEncodeHereBytes) co_return EncodeHere(call);
  struct Encoded {
    std::vector<std::vector<TokenId>> prompts;
    std::exception_ptr error;
  };
  const asio::any_io_executor io = co_await asio::this_coro::executor;
  const auto handoff = std::make_shared<Handoff<Encoded>>(io);
  asio::post(tokenizer_pool_, [this, handoff, call] {
    Encoded encoded;
    try {
      encoded.prompts = EncodeHere(call);
    } catch (...) {
      encoded.error = std::current_exception();
    }
    handoff->Deliver(std::move(encoded));
  });
  Encoded encoded = co_await handoff->Take();
  if (encoded.error) std::rethrow_exception(encoded.error);
  co_return std::move(encoded.prompts);
}

int DataApi::MaxTokens(const GenerateCall& call, size_t longest_prompt) const {
  constexpr int kCompletionDefault = 16, kChatDefault = 4096;
  const int room = options_.request.max_model_len - static_cast<int>(longest_prompt);
  if (room < 1) {
    throw ApiError(400,
                   fmt::format("the prompt has {} tokens; this model serves {} in all, the answer counted in",
                               longest_prompt, options_.request.max_model_len),
                   call.chat ? "messages" : "prompt");
  }
  if (!call.max_tokens) {
    const int64_t per_choice = options_.pool_tokens / call.best_of - static_cast<int64_t>(longest_prompt);
    const int most = call.chat ? kChatDefault : kCompletionDefault;
    return static_cast<int>(std::max<int64_t>(1, std::min<int64_t>({room, most, per_choice})));
  }
  if (*call.max_tokens > room) {
    throw ApiError(400,
                   fmt::format("max_tokens {} and the prompt's {} tokens exceed the {} that this model serves",
                               *call.max_tokens, longest_prompt, options_.request.max_model_len),
                   "max_tokens");
  }
  return *call.max_tokens;
}

}  // namespace quire
