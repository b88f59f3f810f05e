#include "coordinator/api/admin/sleep_pages.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "comm/base/json.h"
#include "coordinator/api/admin/asked_model.h"
#include "coordinator/api/admin/model_orders.h"
#include "coordinator/api/requests/query_fields.h"

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr const char *kSleepPath = "/sleep", *kWakePath = "/wake_up", *kAskPath = "/is_sleeping";

bool Sleeps(const ServedModel& model) {
  return model.phase() == LifePhase::kAsleep || model.phase() == LifePhase::kUnloaded;
}

DataHandler AsDataHandler(AdminHandler handler) {
  return [handler = std::move(handler)](HttpRequest& request, HttpResponder& responder) -> asio::awaitable<void> {
    HttpResponse response = co_await handler(request, responder);
    co_await responder.Send(std::move(response));
  };
}

}  // namespace

std::set<std::string> SleepPages::Paths() { return {kSleepPath, kWakePath, kAskPath}; }

std::vector<AdminRoutes::Route> SleepPages::RoutesOfAdminPort() {
  return {
      {"POST", kSleepPath, [this](HttpRequest& request, HttpResponder&) { return Sleep(request); },
       "puts the models to sleep, as vLLM does: ?level=1 keeps weights in memory, 2 unloads; mode=abort: now"},
      {"POST", kWakePath, [this](HttpRequest& request, HttpResponder& responder) { return WakeUp(request, responder); },
       "wakes sleeping models; one that is unloaded is loaded if it is named, or the only one"},
      {"GET", kAskPath, [this](HttpRequest& request, HttpResponder&) { return IsSleeping(request); },
       "whether all models are asleep or unloaded"}};
}

std::vector<Routes<DataHandler>::Route> SleepPages::RoutesOfDataPort() {
  std::vector<Routes<DataHandler>::Route> routes;
  for (AdminRoutes::Route& route : RoutesOfAdminPort())
    routes.push_back({route.method, route.path, AsDataHandler(std::move(route.handler))});
  return routes;
}

asio::awaitable<HttpResponse> SleepPages::Sleep(HttpRequest& request) {
  const std::vector<ServedModel*> models = TakeAskedModels(models_, request);
  const QueryFields fields(request.query, {"level", "mode"});
  const int64_t level = fields.Integer("level", 1, 2).value_or(1);
  const bool force = fields.Choice("mode", {"wait", "abort"}) == "abort";
  for (ServedModel* const model : models) {
    if (Sleeps(*model) && (level == 1 || model->phase() == LifePhase::kUnloaded)) continue;
    spdlog::info("model {}: an operator asks for sleep of level {}{}", model->name(), level, force ? ", by force" : "");
    if (level == 1)
      co_await SleepModel(keeper_, *model, force);
    else
      co_await UnloadModel(keeper_, *model, force);
  }
  co_return HttpResponse{};
}

asio::awaitable<HttpResponse> SleepPages::WakeUp(HttpRequest& request, HttpResponder& responder) {
  const std::vector<ServedModel*> models = TakeAskedModels(models_, request);
  const QueryFields none(request.query, {});
  for (ServedModel* const model : models) {
    const LifePhase phase = model->phase();
    const bool sleeps = phase == LifePhase::kAsleep || phase == LifePhase::kFallingAsleep;
    if (sleeps || (models.size() == 1 && phase == LifePhase::kUnloaded)) co_await LoadModel(keeper_, *model, responder);
  }
  co_return HttpResponse{};
}

asio::awaitable<HttpResponse> SleepPages::IsSleeping(HttpRequest& request) {
  const std::vector<ServedModel*> models = TakeAskedModels(models_, request);
  const QueryFields none(request.query, {});
  const bool all = std::ranges::all_of(models, [](const ServedModel* model) { return Sleeps(*model); });
  HttpResponse response;
  response.body = DumpJson({{"is_sleeping", all}});
  co_return response;
}

}  // namespace quire
