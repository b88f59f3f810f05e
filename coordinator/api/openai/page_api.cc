#include "coordinator/api/openai/page_api.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <utility>

#include "comm/wire/messages.h"
#include "coordinator/api/openai/on_pool.h"
#include "coordinator/api/requests/query_fields.h"
#include "coordinator/web/web_pages.h"

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr size_t kCheapBytes = 4 << 10;
constexpr std::string_view kModels = "/v1/models/";

/// A model as Anthropic's API describes it.
Json ModelOfMessages(const std::string& name, int64_t created, int max_model_len) {
  return {{"type", "model"},
          {"id", name},
          {"display_name", name},
          {"created_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(created)))},
          {"lifecycle", "active"},
          {"max_input_tokens", max_model_len},
          {"max_tokens", max_model_len}};
}

Json ModelOfOpenAi(const std::string& name, int64_t created, const PageApi::Options& options) {
  const bool is_adapter = std::ranges::count(options.adapters, name) > 0;
  return {{"id", name},
          {"object", "model"},
          {"created", created},
          {"owned_by", "quire"},
          {"root", options.model_name},
          {"parent", is_adapter ? Json(options.model_name) : Json()},
          {"permission", Json::array()},
          {"max_model_len", options.max_model_len},
          {"default_sampling", JsonOf(options.defaults)}};
}

/// Anthropic's form of the model list, with all models on one page.
HttpResponse PageOfModels(const Json& models) {
  return JsonResponse(
      {{"data", models}, {"has_more", false}, {"first_id", models.front()["id"]}, {"last_id", models.back()["id"]}});
}

}  // namespace

PageApi::PageApi(Options options, const Tokenizer& tokenizer, const CallPreparer& preparer, WorkPool& pool,
                 Charge charge, TakeTokens take_tokens)
    : options_(std::move(options)),
      tokenizer_(tokenizer),
      pool_(pool),
      charge_(std::move(charge)),
      take_tokens_(std::move(take_tokens)),
      text_(tokenizer, options_.vocab_size, options_.max_model_len),
      chat_(preparer, options_.max_model_len),
      created_(std::time(nullptr)) {}

std::vector<Routes<DataHandler>::Route> PageApi::MakeRoutes() {
  const auto of_chat = [this](size_t size) { return chat_.Bytes(size); };
  // A body may have messages, and a template's cost is not bounded by the body.
  const Page tokenize = {[this](size_t size) { return std::max(text_.TokenizeBytes(size), chat_.Bytes(size)); },
                         [this](const std::string& body, const std::stop_token& stop) {
                           const RequestBody json(body);
                           return JsonFields(json.fields()).Has("messages") ? chat_.Tokenize(json, stop)
                                                                            : text_.Tokenize(json.fields(), stop);
                         }};
  const Page detokenize = {
      [this](size_t size) { return text_.DetokenizeBytes(size); },
      [this](const std::string& body, const std::stop_token& stop) { return text_.Detokenize(body, stop); }, true};
  const Page render = {
      of_chat, [this](const std::string& body, const std::stop_token& stop) { return chat_.Render(body, stop); }};
  const Page count = {
      of_chat, [this](const std::string& body, const std::stop_token& stop) { return chat_.CountTokens(body, stop); }};
  return {
      {"GET", "/v1/models", At([this](const HttpRequest& request) { return Models(request, ""); })},
      {"GET", "/v1/models/*",
       At([this](const HttpRequest& request) { return Models(request, request.path.substr(kModels.size())); })},
      {"POST", "/v1/chat/completions/render", OnPages(render)},
      {"POST", "/v1/messages/count_tokens", OnPages(count)},
      {"POST", "/tokenize", OnPages(tokenize)},
      {"POST", "/detokenize", OnPages(detokenize)},
      {"GET", "/tokenizer_info", At([this](HttpRequest& request) { return TokenizerInfo(request); })},
      {"GET", "/openapi.json", At([](const HttpRequest&) { return OpenApiDocument(); })},
      {"GET", "/version", At([](const HttpRequest&) {
         return JsonResponse({{"version", kBuildVersion}});
       })},
  };
}

/// The list of models, or one model. A client that sends anthropic-version gets Anthropic's form.
HttpResponse PageApi::Models(const HttpRequest& request, const std::string& id) const {
  const bool of_messages = !request.Header("anthropic-version").empty();
  Json models = Json::array();
  const std::string decoded = PercentDecoded(id).value_or(id);  // clients spell the slash of ORG/NAME as %2F
  std::vector<std::string> names = {options_.model_name};
  std::ranges::copy(options_.aliases, std::back_inserter(names));
  std::ranges::copy(options_.adapters, std::back_inserter(names));
  for (const std::string& name : names) {
    Json model =
        of_messages ? ModelOfMessages(name, created_, options_.max_model_len) : ModelOfOpenAi(name, created_, options_);
    if (!id.empty() && (id == name || decoded == name)) return JsonResponse(model);
    models.push_back(std::move(model));
  }
  if (!id.empty())
    return ErrorResponse(
        404, "the model \"" + decoded.substr(0, 100) + "\" is not served here; /v1/models lists what is", "model");
  return of_messages ? PageOfModels(models) : JsonResponse({{"object", "list"}, {"data", std::move(models)}});
}

HttpResponse PageApi::TokenizerInfo(HttpRequest& request) {
  const TokenizerData& data = tokenizer_.data();
  constexpr int64_t kOthers = 4096, kTreeAndText = 1 + 6;  // a tree, and its text with up to six bytes for one
  const auto bytes = kOthers + kTreeAndText * static_cast<int64_t>(data.chat_template.size());
  if (auto refusal = charge_(request.memory, request.client, bytes)) return std::move(*refusal);
  return JsonResponse({{"bos_token", data.bos_token},
                       {"eos_token", data.eos_token},
                       {"pad_token", data.pad_token},
                       {"chat_template", data.chat_template.empty() ? Json() : Json(data.chat_template)}});
}

DataHandler PageApi::OnPages(Page page) {
  return [this, page = std::move(page)](HttpRequest& request, HttpResponder& responder) -> asio::awaitable<void> {
    std::optional<HttpResponse> response = co_await Make(page, request, responder);
    if (!response) co_return;  // the client left
    HttpResponse answer = std::move(*response);
    co_await responder.Send(std::move(answer));
  };
}

/// Charges, makes and returns the page; nullopt when the client left meanwhile.
asio::awaitable<std::optional<HttpResponse>> PageApi::Make(const Page& page, HttpRequest& request,
                                                           HttpResponder& responder) {
  const size_t size = request.body.size();
  const int64_t bytes = page.bytes(size);
  std::optional<HttpResponse> refusal = take_tokens_(request.client, size);
  if (!refusal) refusal = charge_(request.memory, request.client, bytes);
  if (refusal) co_return refusal;
  std::function<std::string(const std::stop_token&)> work =
      [&page, body = std::exchange(request.body, {})](const std::stop_token& stop) { return page.make(body, stop); };
  std::optional<std::string> text;
  if (page.cheap && size <= kCheapBytes) {
    text = work({});
  } else {
    text = co_await OnPool(pool_, responder, request.share, size, std::move(work));
  }
  if (!text) co_return std::nullopt;
  // A template may make more of a body than was charged before.
  const auto held = static_cast<int64_t>(text->capacity());
  refusal = charge_(request.memory, request.client, held);
  if (refusal) co_return refusal;
  HttpResponse answer;
  answer.body = std::move(*text);
  co_return answer;
}

}  // namespace quire
