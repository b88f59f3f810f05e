#include "coordinator/api/admin/admin_api.h"

#include <utility>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "coordinator/api/access/client_id.h"
#include "coordinator/api/admin/admin_reports.h"
#include "coordinator/api/admin/asked_model.h"
#include "coordinator/api/admin/pin_order.h"
#include "coordinator/api/openai/on_engine.h"
#include "coordinator/api/openai/on_pool.h"
#include "coordinator/api/requests/json_fields.h"
#include "coordinator/web/web_pages.h"

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr size_t kLongestOrder = 4 << 10;  // most bytes of a body, except for /admin/pin

std::vector<std::unique_ptr<AdminReports>> ReportsOf(const AdminReports::Server& server, ModelRoster& models,
                                                     WorkPool& pool) {
  std::vector<std::unique_ptr<AdminReports>> reports;
  for (size_t i = 0; i < models.size(); ++i)
    reports.push_back(std::make_unique<AdminReports>(server, models, i, pool));
  return reports;
}

}  // namespace

HttpLimits AdminLimits() {
  HttpLimits limits;
  limits.chosen.connections = 128;
  limits.chosen.connections_per_address = 64;
  return limits;
}

AdminApi::AdminApi(Options options, ModelRoster& models, MetricsPage& metrics, HistoryRecorder& history,
                   AdminControl& control, ModelKeeper& keeper, WorkPool& pool)
    : client_of_key_(std::move(options.client_of_key)),
      adapters_(options.adapters),
      sleep_(options.sleep),
      models_(models),
      metrics_(metrics),
      history_(history),
      control_(control),
      model_control_(models, keeper),
      pool_(pool),
      reports_(ReportsOf(options.server, models, pool)),
      routes_(MakeRoutes()) {}

/// Returns the routes of the reports. Each report is about the model that the request names.
std::vector<AdminRoutes::Route> AdminApi::RoutesOfReports() {
  std::vector<std::vector<AdminRoutes::Route>> of_models;
  for (const auto& reports : reports_) of_models.push_back(reports->MakeRoutes());
  std::vector<AdminRoutes::Route> routes = of_models.front();
  for (size_t r = 0; r < routes.size(); ++r) {
    std::vector<AdminHandler> handlers;
    for (const auto& of_model : of_models) handlers.push_back(of_model[r].handler);
    routes[r].handler = [this, handlers = std::move(handlers)](HttpRequest& request, HttpResponder& responder) {
      return handlers[TakeReportedModel(models_, request).index()](request, responder);
    };
  }
  return routes;
}

AdminRoutes AdminApi::MakeRoutes() {
  const AdminHandler page = [](HttpRequest& request, HttpResponder&) { return DashboardFile(request.path); };
  const AdminHandler flush = [this](HttpRequest& request, HttpResponder&) { return FlushCaches(request); };
  std::vector<AdminRoutes::Route> routes = {
      {"GET", "/", page, "the dashboard"},
      {"GET", kWebFiles, page},
      {"GET", "/admin/help", [this](HttpRequest&, HttpResponder&) { return HelpPage(); }, "this list"},
      {"GET", "/metrics", [this](HttpRequest&, HttpResponder&) { return metrics_.Now(); }, "for Prometheus"},
      {"GET", "/admin/history", [this](HttpRequest& request, HttpResponder&) { return history_.Page(request); },
       "the last half hour in numbers, a row every five seconds: what the dashboard draws; ?since=MILLISECONDS"},
      {"POST", "/admin/flush_cache", flush, "forgets all cached blocks and pins"},
      {"POST", "/reset_prefix_cache", flush, "the same, as vLLM names it"},
      {"POST", "/admin/pin", [this](HttpRequest& request, HttpResponder& responder) { return Pin(request, responder); },
       "keeps a prompt's cached blocks for a while"},
      {"POST", "/admin/unpin", [this](HttpRequest& request, HttpResponder&) { return Unpin(request); }, "ends a pin"},
  };
  for (auto& route : adapters_.RoutesOfAdminPort()) routes.push_back(std::move(route));
  for (auto& route : sleep_.RoutesOfAdminPort()) routes.push_back(std::move(route));
  for (auto& route : RoutesOfReports()) routes.push_back(std::move(route));
  for (auto& route : control_.MakeRoutes()) routes.push_back(std::move(route));
  for (auto& route : model_control_.MakeRoutes()) routes.push_back(std::move(route));
  return AdminRoutes(std::move(routes));
}

asio::awaitable<HttpResponse> AdminApi::DashboardFile(const std::string& path) {
  co_return WebFile(WebPage::kDashboard, path);
}

asio::awaitable<HttpResponse> AdminApi::HelpPage() {
  Json list = Json::array();
  for (const auto& route : routes_.all()) {
    if (!route.help.empty()) list.push_back({{"method", route.method}, {"path", route.path}, {"help", route.help}});
  }
  HttpResponse response;
  response.body = DumpJson({{"endpoints", std::move(list)}});
  co_return response;
}

asio::awaitable<HttpResponse> AdminApi::FlushCaches(HttpRequest& request) {
  int cached = 0;
  size_t pins = 0;
  for (ServedModel* const model : TakeAskedModels(models_, request)) {
    const auto workers = model->Hold();
    if (workers == nullptr) continue;  // an unloaded model has no cache in memory
    for (int r = 0; r < model->replicas().size(); ++r) {
      EngineTask flush = [&](Engine& engine) {
        cached += engine.blocks().pool().num_cached();
        pins += engine.blocks().pins().all().size();
        engine.FlushCache();
        return std::string();
      };
      const std::string nothing = co_await OnEngine(model->replicas().at(r).loop(), std::move(flush));
    }
  }
  HttpResponse response;
  response.body = DumpJson({{"flushed_blocks", cached}, {"dropped_pins", pins}});
  co_return response;
}

/// Pins the cached blocks of a prompt: the blocks stay cached for a while.
asio::awaitable<HttpResponse> AdminApi::Pin(HttpRequest& request, HttpResponder& responder) {
  const size_t size = request.body.size();
  ServedModel& model = TakeAskedModel(models_, request);
  const auto workers = HoldAsked(model);
  std::function<PinOrder(const std::stop_token&)> read =
      [&model, body = std::exchange(request.body, {})](const std::stop_token& stop) {
        return ReadPinOrder(body, model.text().tokenizer, model.replicas().size(), stop);
      };
  std::optional<PinOrder> order = co_await OnPool(pool_, responder, kPoolClient, size, std::move(read));
  HttpResponse response;
  if (!order) co_return response;  // the client is gone
  const std::string salt = CacheSalt(order->key ? client_of_key_(*order->key) : "", order->cache_salt);
  EngineTask pin = [salt, tokens = std::move(order->tokens), seconds = order->seconds](Engine& engine) {
    const auto made = engine.PinPrefix(salt, tokens, EngineLoop::Now() + seconds);
    if (!made) return DumpJson({{"pinned_tokens", 0}, {"pin", nullptr}});
    const size_t blocks = engine.blocks().pins().all().back().blocks.size();
    return DumpJson({{"pinned_tokens", blocks * static_cast<size_t>(engine.blocks().block_size())}, {"pin", *made}});
  };
  response.body = co_await OnEngine(model.replicas().at(order->replica).loop(), std::move(pin));
  co_return response;
}

asio::awaitable<HttpResponse> AdminApi::Unpin(HttpRequest& request) {
  const auto workers = HoldAsked(TakeAskedModel(models_, request));
  Replicas& replicas = workers->replicas();
  const Json body = ParseJson(request.body, "body");
  const JsonFields fields(body);
  const auto pin = fields.Integer("pin", 1, INT64_MAX);
  if (!pin) JsonFields::Refuse("pin", "is missing");
  const auto replica = fields.Integer("replica", 0, replicas.size() - 1).value_or(0);
  EngineTask unpin = [pin](Engine& engine) {
    return DumpJson({{"unpinned", engine.Unpin(static_cast<uint64_t>(*pin))}});
  };
  HttpResponse response;
  response.body = co_await OnEngine(replicas.at(static_cast<int>(replica)).loop(), std::move(unpin));
  co_return response;
}

asio::awaitable<void> AdminApi::Handle(HttpRequest& request, HttpResponder& responder) {
  HttpResponse response;
  try {
    const AdminHandler* handler = routes_.Find(request);
    QUIRE_CHECK(handler != nullptr, "{} {} was admitted", request.method, request.path);
    if (request.body.size() > kLongestOrder && request.path != "/admin/pin")
      throw ApiError(413, fmt::format("the body is larger than {} bytes", kLongestOrder));
    response = co_await (*handler)(request, responder);
  } catch (const ApiError& error) {
    response = ErrorResponse(error);
  } catch (const Error& error) {
    response = ErrorResponse(400, error.what());
  }
  if (responder.record.status != 0) co_return;  // the answer was a stream
  // A list whose client reads slowly stays in memory until the connection ends, so its bytes are charged.
  const auto held = static_cast<int64_t>(request.body.capacity() + response.body.capacity());
  if (request.memory.Resize(held) != ByteBudget::Verdict::kTaken)
    response = ErrorResponse(429, "answers that wait to be taken fill this port's memory; try again later");
  co_await responder.Send(std::move(response));
}

}  // namespace quire
