#include "coordinator/api/admin/model_control.h"

#include <spdlog/spdlog.h>

#include <boost/asio/this_coro.hpp>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "comm/base/json.h"
#include "coordinator/api/openai/on_engine.h"
#include "coordinator/api/openai/on_pool.h"
#include "coordinator/api/requests/json_fields.h"
#include "coordinator/api/requests/query_fields.h"
#include "coordinator/http/handoff.h"

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr std::string_view kPath = "/admin/models/";

/// An operator's order: the model and the verb that the path names.
struct Order {
  std::string model, verb;
};

/// Reads /admin/models/NAME/VERB. A name may have slashes.
Order OrderOf(const HttpRequest& request) {
  const std::string_view rest = std::string_view(request.path).substr(kPath.size());
  const size_t slash = rest.rfind('/');
  if (slash == std::string_view::npos) return {std::string(rest), ""};
  const std::string_view name = rest.substr(0, slash);
  return {PercentDecoded(name).value_or(std::string(name)), std::string(rest.substr(slash + 1))};
}

/// Ends all requests in the model's engines with an error.
asio::awaitable<void> AbortAll(ServedModel& model) {
  const auto workers = model.Hold();
  if (workers == nullptr) co_return;
  for (int r = 0; r < workers->replicas().size(); ++r) {
    std::function<bool(Engine&)> abort = [](Engine& engine) {
      std::vector<RequestId> ids;
      for (const auto& [id, running] : engine.requests()) ids.push_back(id);
      for (const RequestId id : ids) engine.Abort(id, RequestError::kAborted, "the operator unloads the model");
      return true;
    };
    [[maybe_unused]] const bool done = co_await OnEngine(workers->replicas().at(r).loop(), std::move(abort));
  }
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
      one["weight_bytes"] = model.weight_bytes();
      one["kv_bytes"] = model.kv_bytes();
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
       "/admin/models/NAME/load starts a model's workers; .../unload ends them after its requests, {force: true}: now"},
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
  if (order.verb != "load" && order.verb != "unload")
    throw ApiError(404, "the path is /admin/models/NAME/load or /admin/models/NAME/unload");
  ServedModel* const model = order.model.empty() ? nullptr : models_.Find(order.model);
  if (model == nullptr)
    throw ApiError(404, "the model \"" + order.model.substr(0, 100) +
                            "\" is not served here; GET /admin/models lists "
                            "what is");
  const Json body = request.body.empty() ? Json::object() : ParseJson(request.body, "body");
  const bool force = JsonFields(body).Flag("force", false);
  spdlog::info("model {}: an operator asks to {} it{}", model->name(), order.verb, force ? ", by force" : "");
  if (order.verb == "load") {
    co_await Load(*model, responder);
  } else {
    co_await Unload(*model, force);
  }
  const Json answer = {{"model", model->name()}, {"state", NameOf(model->state())}};
  HttpResponse response;
  response.body = DumpJson(answer);
  co_return response;
}

asio::awaitable<void> ModelControl::Load(ServedModel& model, HttpResponder& responder) {
  struct Outcome {
    int status = 200;
    std::string reason;
  };
  const asio::any_io_executor io = co_await asio::this_coro::executor;
  const auto handoff = std::make_shared<Handoff<Outcome>>(io);
  const uint64_t wait = keeper_.Ask(model, [handoff](const auto& use, const ModelKeeper::Refusal& refusal) {
    handoff->Deliver(use != nullptr ? Outcome{} : Outcome{refusal.status, refusal.reason});
  });
  const WhenGone hook(responder, [this, wait, handoff] {
    keeper_.Forget(wait);
    handoff->Deliver({499, "the client left"});
  });
  const Outcome outcome = co_await handoff->Take();
  if (outcome.status == 200) co_return;
  const std::string problem = keeper_.ReportOf(model).problem;
  throw ApiError(outcome.status, outcome.reason + (problem.empty() ? "" : ": " + problem));
}

asio::awaitable<void> ModelControl::Unload(ServedModel& model, bool force) {
  const asio::any_io_executor io = co_await asio::this_coro::executor;
  const auto handoff = std::make_shared<Handoff<bool>>(io);
  keeper_.Unload(model, [handoff] { handoff->Deliver(true); });
  if (force) co_await AbortAll(model);
  [[maybe_unused]] const bool done = co_await handoff->Take();
}

}  // namespace quire
