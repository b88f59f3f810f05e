#include "coordinator/api/admin/model_control.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "comm/base/json.h"
#include "coordinator/api/admin/model_orders.h"
#include "coordinator/api/requests/json_fields.h"
#include "coordinator/api/requests/query_fields.h"

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr std::string_view kPath = "/admin/models/";
constexpr std::string_view kVerbs[] = {"load", "unload", "sleep", "wake"};

/// An operator's order: the model and the verb that the path names.
struct Order {
  std::string model, verb;
};

/// Splits the path /admin/models/NAME/VERB. A name may have slashes.
Order OrderOf(const HttpRequest& request) {
  const std::string_view rest = std::string_view(request.path).substr(kPath.size());
  const size_t slash = rest.rfind('/');
  if (slash == std::string_view::npos) return {std::string(rest), ""};
  const std::string_view name = rest.substr(0, slash);
  return {PercentDecoded(name).value_or(std::string(name)), std::string(rest.substr(slash + 1))};
}

}  // namespace

Json ModelsJson(const ModelRoster& models, const ModelKeeper& keeper) {
  Json list = Json::array();
  for (size_t i = 0; i < models.size(); ++i) {
    const ServedModel& model = models.at(i);
    const ModelKeeper::Report report = keeper.ReportOf(model);
    Json one = {{"name", model.name()},
                {"state", NameOf(model.state())},
                {"requests", report.users},
                {"waiting", report.waiting},
                {"loads", report.loads},
                {"load_failures", report.failures},
                {"load_seconds", report.load_seconds > 0 ? Json(report.load_seconds) : Json()},
                {"unloads_in_seconds", report.expires_in >= 0 ? Json(report.expires_in) : Json()},
                {"problem", report.problem.empty() ? Json() : Json(report.problem)}};
    if (model.kv_bytes() > 0) {
      one["weight_bytes"] = model.need().weights;
      one["working_bytes"] = model.need().working;
      one["kv_bytes"] = model.kv_bytes();
      one["taken_bytes"] = report.taken_bytes;
    }
    list.push_back(std::move(one));
  }
  return list;
}

std::vector<AdminRoutes::Route> ModelControl::MakeRoutes() {
  return {
      {"GET", "/admin/models", [this](HttpRequest&, HttpResponder&) { return List(); },
       "the models: state, memory, requests, and when each is unloaded"},
      {"POST", "/admin/models/*",
       [this](HttpRequest& request, HttpResponder& responder) { return Obey(request, responder); },
       "/admin/models/NAME/load starts a model's workers; .../unload ends them after its requests, {force: true}: now; "
       ".../sleep gives the memory of its cache back, and .../wake has it serve again"},
  };
}

asio::awaitable<HttpResponse> ModelControl::List() const {
  const bool limited = models_.room() > 0;
  Json page = {{"models", ModelsJson(models_, keeper_)},
               {"memory",
                {{"most_bytes", limited ? Json(keeper_.room()) : Json()},
                 {"taken_bytes", limited ? Json(keeper_.taken()) : Json()}}}};
  HttpResponse response;
  response.body = DumpJson(page);
  co_return response;
}

asio::awaitable<HttpResponse> ModelControl::Obey(HttpRequest& request, HttpResponder& responder) {
  const Order order = OrderOf(request);
  if (std::ranges::find(kVerbs, order.verb) == std::end(kVerbs))
    throw ApiError(404, fmt::format("the path is /admin/models/NAME/VERB, with one of {}", fmt::join(kVerbs, ", ")));
  ServedModel* const model = order.model.empty() ? nullptr : models_.Find(order.model);
  if (model == nullptr)
    throw ApiError(404, "the model \"" + order.model.substr(0, 100) +
                            "\" is not served here; GET /admin/models lists "
                            "what is");
  const Json body = request.body.empty() ? Json::object() : ParseJson(request.body, "body");
  const bool force = JsonFields(body).Flag("force", false);
  spdlog::info("model {}: an operator asks to {} it{}", model->name(), order.verb, force ? ", by force" : "");
  if (order.verb == "load") co_await LoadModel(keeper_, *model, responder);
  if (order.verb == "unload") co_await UnloadModel(keeper_, *model, force);
  if (order.verb == "sleep") co_await SleepModel(keeper_, *model, force);
  if (order.verb == "wake") co_await WakeModel(keeper_, *model, responder);
  const Json answer = {{"model", model->name()}, {"state", NameOf(model->state())}};
  HttpResponse response;
  response.body = DumpJson(answer);
  co_return response;
}

}  // namespace quire
