#include "coordinator/api/openai/page_api.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>
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

/// Returns a model as Anthropic's API describes it.
Json ModelOfMessages(const std::string& name, int64_t created, int max_model_len) {
  return {{"type", "model"},
          {"id", name},
          {"display_name", name},
          {"created_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(created)))},
          {"lifecycle", "active"},
          {"max_input_tokens", max_model_len},
          {"max_tokens", max_model_len}};
}

Json ModelOfOpenAi(const std::string& name, int64_t created, const ModelDesk& desk) {
  const bool is_adapter = desk.model.adapters().Find(name) != nullptr;
  Json json = {{"id", name},
               {"object", "model"},
               {"created", created},
               {"owned_by", "quire"},
               {"root", desk.model.name()},
               {"parent", is_adapter ? Json(desk.model.name()) : Json()},
               {"permission", Json::array()},
               {"max_model_len", desk.limits.request.max_model_len},
               {"default_sampling", JsonOf(desk.limits.request.defaults)},
               {"state", NameOf(desk.model.state())}};
  if (desk.model.kv_bytes() > 0)
    json["memory"] = {{"weight_bytes", desk.model.need().weights},
                      {"working_bytes", desk.model.need().working},
                      {"kv_bytes", desk.model.kv_bytes()}};
  return json;
}

/// Returns the model list in Anthropic's form, with all models on one page.
HttpResponse PageOfModels(const Json& models) {
  return JsonResponse(
      {{"data", models}, {"has_more", false}, {"first_id", models.front()["id"]}, {"last_id", models.back()["id"]}});
}

}  // namespace

PageApi::PageApi(ModelDesks& desks, WorkPool& pool, Charge charge, TakeTokens take_tokens)
    : desks_(desks),
      pool_(pool),
      charge_(std::move(charge)),
      take_tokens_(std::move(take_tokens)),
      created_(std::time(nullptr)) {}

std::vector<Routes<DataHandler>::Route> PageApi::MakeRoutes() {
  using Stop = std::stop_token;
  const auto of_chat = [](const ModelDesk& desk, size_t size) { return desk.chat.Bytes(size); };
  // This page is never made on the I/O thread: a body may have messages, and the body's size does not bound the cost of
  // a chat template.
  const Page tokenize = {[](const ModelDesk& desk, size_t size) {
                           return std::max(desk.text.TokenizeBytes(size), desk.chat.Bytes(size));
                         },
                         [](const ModelDesk& desk, const std::string& body, const Stop& stop) {
                           const RequestBody json(body);
                           return JsonFields(json.fields()).Has("messages") ? desk.chat.Tokenize(json, stop)
                                                                            : desk.text.Tokenize(json.fields(), stop);
                         }};
  const Page detokenize = {[](const ModelDesk& desk, size_t size) { return desk.text.DetokenizeBytes(size); },
                           [](const ModelDesk& desk, const std::string& body, const Stop& stop) {
                             return desk.text.Detokenize(body, stop);
                           },
                           true};
  const Page render = {of_chat, [](const ModelDesk& desk, const std::string& body, const Stop& stop) {
                         return desk.chat.Render(body, stop);
                       }};
  const Page count = {of_chat, [](const ModelDesk& desk, const std::string& body, const Stop& stop) {
                        return desk.chat.CountTokens(body, stop);
                      }};
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

/// Returns the list of models, or one model. A client that sends anthropic-version gets Anthropic's form.
HttpResponse PageApi::Models(const HttpRequest& request, const std::string& id) const {
  const bool of_messages = !request.Header("anthropic-version").empty();
  Json models = Json::array();
  const std::string decoded = PercentDecoded(id).value_or(id);  // clients spell the slash of ORG/NAME as %2F
  for (size_t i = 0; i < desks_.size(); ++i) {
    const ModelDesk& desk = desks_.at(i);
    for (const std::string& name : desk.model.Names()) {
      Json model = of_messages ? ModelOfMessages(name, created_, desk.limits.request.max_model_len)
                               : ModelOfOpenAi(name, created_, desk);
      if (!id.empty() && (id == name || decoded == name)) return JsonResponse(model);
      models.push_back(std::move(model));
    }
  }
  if (!id.empty())
    return ErrorResponse(
        404, "the model \"" + decoded.substr(0, 100) + "\" is not served here; /v1/models lists what is", "model");
  return of_messages ? PageOfModels(models) : JsonResponse({{"object", "list"}, {"data", std::move(models)}});
}

/// Answers with the special tokens and the chat template of the model that the query names (?model=), or of the first
/// model.
HttpResponse PageApi::TokenizerInfo(HttpRequest& request) {
  const std::string name = desks_.size() > 1 ? QueryFields(request.query, {"model"}).Text("model") : "";
  const TokenizerData& data = desks_.Named(name).model.text().tokenizer.data();
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

/// Charges the client for a page, makes the page and returns it. Returns the refusal if the charge is refused, and
/// nullopt when the client left meanwhile.
asio::awaitable<std::optional<HttpResponse>> PageApi::Make(const Page& page, HttpRequest& request,
                                                           HttpResponder& responder) {
  const size_t size = request.body.size();
  std::optional<HttpResponse> refusal = take_tokens_(request.client, size);
  if (refusal) co_return refusal;
  const ModelDesk* desk = co_await desks_.Find(request, responder);
  if (desk == nullptr) co_return std::nullopt;
  refusal = charge_(request.memory, request.client, page.bytes(*desk, size));
  if (refusal) co_return refusal;
  std::function<std::string(const std::stop_token&)> work =
      [&page, desk, body = std::exchange(request.body, {})](const std::stop_token& stop) {
        return page.make(*desk, body, stop);
      };
  std::optional<std::string> text;
  if (page.cheap && size <= kCheapBytes) {
    text = work({});
  } else {
    text = co_await OnPool(pool_, responder, request.share, size, std::move(work));
  }
  if (!text) co_return std::nullopt;
  // A template may enlarge a body, so the page's text may be larger than the charge made before.
  const auto held = static_cast<int64_t>(text->capacity());
  refusal = charge_(request.memory, request.client, held);
  if (refusal) co_return refusal;
  HttpResponse answer;
  answer.body = std::move(*text);
  co_return answer;
}

}  // namespace quire
