#include "coordinator/api/admin/admin_api.h"

#include <utility>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "coordinator/api/access/audit_log.h"
#include "coordinator/api/admin/admin_reports.h"
#include "coordinator/api/admin/asked_model.h"
#include "coordinator/api/openai/on_engine.h"
#include "coordinator/web/web_pages.h"

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr size_t kLongestOrder = 4 << 10;  // most bytes of a body, except for /admin/pin

std::vector<std::unique_ptr<AdminReports>> ReportsOf(const AdminReports::Server& server, ModelRoster& models,
                                                     WorkPool& pool) {
  std::vector<std::unique_ptr<AdminReports>> reports;
  for (size_t i = 0; i < models.size(); ++i) reports.push_back(std::make_unique<AdminReports>(server, models, i, pool));
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
    : adapters_(options.adapters),
      sleep_(options.sleep),
      models_(models),
      metrics_(metrics),
      history_(history),
      control_(control),
      model_control_(models, keeper),
      pins_(std::move(options.client_of_key), models, pool),
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
  };
  for (auto& route : adapters_.RoutesOfAdminPort()) routes.push_back(std::move(route));
  for (auto& route : sleep_.RoutesOfAdminPort()) routes.push_back(std::move(route));
  for (auto& route : RoutesOfReports()) routes.push_back(std::move(route));
  for (auto& route : control_.MakeRoutes()) routes.push_back(std::move(route));
  for (auto& route : model_control_.MakeRoutes()) routes.push_back(std::move(route));
  for (auto& route : pins_.MakeRoutes()) routes.push_back(std::move(route));
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
        if (KvTier* const tier = model->replicas().at(r).tier(); tier != nullptr) tier->pins().Forget();
        return std::string();
      };
      const std::string nothing = co_await OnEngine(model->replicas().at(r).loop(), std::move(flush));
    }
  }
  HttpResponse response;
  response.body = DumpJson({{"flushed_blocks", cached}, {"dropped_pins", pins}});
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
  // An answer stays in memory while its client reads slowly, so the answer's bytes count against this port's memory.
  const auto held = static_cast<int64_t>(request.body.capacity() + response.body.capacity());
  if (request.memory.Resize(held) != ByteBudget::Verdict::kTaken) {
    constexpr const char* kFull = "answers that wait to be taken fill this port's memory";
    if (IsVerb(request.method)) {
      // The order was carried out or refused already, so the operator and the audit log get its status.
      response.body = DumpJson({{"answer_left_out", kFull}});
    } else {
      response = ErrorResponse(429, fmt::format("{}; try again later", kFull));
    }
  }
  co_await responder.Send(std::move(response));
}

}  // namespace quire
