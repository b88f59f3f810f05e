#include "coordinator/api/admin/admin_control.h"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/base/share.h"
#include "coordinator/api/admin/asked_model.h"
#include "coordinator/api/openai/on_engine.h"
#include "coordinator/api/requests/json_fields.h"
#include "coordinator/cluster/launch/engine_settings.h"
#include "coordinator/http/handoff.h"

namespace quire {

namespace asio = boost::asio;

namespace {

HttpResponse Answer(const Json& json) { return {200, "application/json", DumpJson(json), {}}; }

Json BodyOf(const HttpRequest& request) {
  return request.body.empty() ? Json::object() : ParseJson(request.body, "body");
}

/// Reads a group's shape from a body such as {"tensor": 3, "shares": [2, 1, 1], "pipeline": 2}. Without "shares", or
/// with "auto", the tensor-parallel ranks get equal shares. Without "pipeline" there is one stage. Throws ApiError
/// without "tensor", and for bad values.
GroupShape ShapeFrom(const Json& body) {
  const JsonFields fields(body);
  GroupShape shape;
  const auto tensor = fields.Integer("tensor", 1, 1024);
  if (!tensor) JsonFields::Refuse("tensor", "is missing");
  shape.tensor = static_cast<int>(*tensor);
  shape.pipeline = static_cast<int>(fields.Integer("pipeline", 1, 1024).value_or(1));
  const Json* shares = fields.Find("shares");
  if (shares == nullptr || *shares == "auto") return shape;
  if (!shares->is_array()) JsonFields::Refuse("shares", "must be a list of positive numbers, or \"auto\"");
  for (const Json& share : *shares) {
    if (!share.is_number() || !IsShare(share.get<double>()))
      JsonFields::Refuse("shares", "must be numbers from 1e-6 to 1e6");
    shape.shares.push_back(share.get<double>());
  }
  return shape;
}

}  // namespace

AdminControl::AdminControl(ModelRoster& models, LiveSettings& settings, DataPort data_port)
    : models_(models), settings_(settings), data_port_(std::move(data_port)) {}

std::vector<AdminRoutes::Route> AdminControl::MakeRoutes() {
  using Answering = asio::awaitable<HttpResponse> (AdminControl::*)(HttpRequest&);
  const auto to = [this](Answering method) -> AdminHandler {
    return [this, method](HttpRequest& request, HttpResponder&) { return (this->*method)(request); };
  };
  const auto set = [this](Accepting accepting) -> AdminHandler {
    return [this, accepting](HttpRequest&, HttpResponder&) -> asio::awaitable<HttpResponse> {
      co_return SetAccepting(accepting);
    };
  };
  return {
      {"POST", "/admin/pause", set(Accepting::kPaused), "requests are taken and wait"},
      {"POST", "/admin/resume", set(Accepting::kAll), "ends a pause or a drain"},
      {"POST", "/admin/drain", set(Accepting::kDraining), "new requests are refused, those that are here go on"},
      {"POST", "/admin/log_level", to(&AdminControl::SetLogLevel), "{level: trace, debug, info, warn or error}"},
      {"PATCH", "/admin/config", to(&AdminControl::PatchConfig),
       "changes settings until the server ends, {\"server.limits.queue_seconds\": 30}; null: as at the start"},
      {"POST", "/admin/abort", to(&AdminControl::Abort), "ends {request: ID}, or {all: true}"},
      {"POST", "/admin/reshard", to(&AdminControl::Reshard),
       "{tensor: N, shares: [...], pipeline: N}: other workers under load; also replica"},
      {"POST", "/admin/restart_workers", to(&AdminControl::RestartWorkers),
       "the same number of workers anew; also {replica: N}"},
      {"POST", "/admin/migrate", to(&AdminControl::Migrate), "moves {request: ID} to {replica: N}"},
      {"POST", "/admin/profile", to(&AdminControl::Profile),
       "what the engine and the ranks do for {seconds: N}, as a trace for Perfetto and browsers"},
  };
}

void AdminControl::SetPaused(Replicas& replicas) const {
  for (int r = 0; r < replicas.size(); ++r) replicas.at(r).loop().SetPaused(paused_);
}

void AdminControl::OnLoaded(ServedModel& model) {
  SetPaused(model.replicas());
  const LiveOptions options = LiveOptionsOf(ModelTopology(settings_.topology(), model.index()));
  for (int r = 0; r < model.replicas().size(); ++r)
    model.replicas().at(r).loop().Post([options](Engine& engine) { engine.ChangeOptions(options); });
}

HttpResponse AdminControl::SetAccepting(Accepting accepting) {
  const bool paused = accepting == Accepting::kPaused, draining = accepting == Accepting::kDraining;
  const EventKind kind = paused ? EventKind::kPaused : draining ? EventKind::kDraining : EventKind::kResumedServing;
  data_port_.set_accepting(draining, paused);
  paused_ = paused;
  for (size_t i = 0; i < models_.size(); ++i) {
    if (models_.at(i).Hold() != nullptr) SetPaused(models_.at(i).replicas());
    models_.at(i).events().Publish(kind, [] { return ServerEvent{.text = "by an operator"}; });
  }
  spdlog::info("{}", paused     ? "paused: requests wait until /admin/resume"
                     : draining ? "draining: new requests are refused until /admin/resume"
                                : "resumed");
  return Answer({{"paused", paused}, {"draining", draining}, {"pending", data_port_.pending_requests()}});
}

asio::awaitable<HttpResponse> AdminControl::SetLogLevel(HttpRequest& request) {
  const Json body = BodyOf(request);
  const std::string level = JsonFields(body).Text("level").value_or("");
  if (!Named<LogLevel>(level))
    JsonFields::Refuse("level", fmt::format("must be one of {}", fmt::join(NamesOf<LogLevel>(), ", ")));
  const Json change = {{"logs.level", level}};
  const HttpResponse changed = co_await Change(change);
  co_return Answer({{"level", level}});
}

asio::awaitable<HttpResponse> AdminControl::PatchConfig(HttpRequest& request) {
  const Json changes = ParseJson(request.body, "body");
  HttpResponse response = co_await Change(changes);
  co_return response;
}

asio::awaitable<HttpResponse> AdminControl::Change(const Json& changes) {
  const std::vector<std::string> keys = settings_.Change(changes);
  co_await TellEngines(keys, "an operator");
  co_return Answer({{"changed", keys}});
}

void AdminControl::Follow(asio::io_context& io, const Topology& before, const Topology& now) {
  std::vector<std::string> keys = settings_.Follow(before, now);
  if (keys.empty()) return;
  asio::co_spawn(io, TellEngines(std::move(keys), "SIGHUP"), [](const std::exception_ptr&) {});
}

asio::awaitable<void> AdminControl::TellEngines(std::vector<std::string> keys, std::string by_whom) {
  const std::string names = fmt::format("{}", fmt::join(keys, ", "));
  for (size_t i = 0; i < models_.size(); ++i) {
    const auto workers = models_.at(i).Hold();  // null: the model gets the settings when it is loaded
    const LiveOptions options = LiveOptionsOf(ModelTopology(settings_.topology(), i));
    for (int r = 0; workers != nullptr && r < workers->replicas().size(); ++r) {
      Replicas& replicas = workers->replicas();
      std::function<bool(Engine&)> change = [options](Engine& engine) {
        engine.ChangeOptions(options);
        return true;
      };
      [[maybe_unused]] const bool changed = co_await OnEngine(replicas.at(r).loop(), std::move(change));
    }
    models_.at(i).events().Publish(EventKind::kSettingsChanged,
                                   [&] { return ServerEvent{.text = names + ", by " + by_whom}; });
  }
  spdlog::info("settings changed by {}: {}", by_whom, names);
}

asio::awaitable<HttpResponse> AdminControl::Profile(HttpRequest& request) {
  constexpr double kMostSeconds = 60;
  const auto workers = HoldAsked(TakeAskedModel(models_, request));
  Replicas& replicas = workers->replicas();
  const Json body = BodyOf(request);
  const double seconds = JsonFields(body).Number("seconds", 0.01, kMostSeconds).value_or(2);
  if (profiling_) throw ApiError(409, "a profile is being made; ask again when it has been answered");
  profiling_ = true;
  struct AtEnd {
    ~AtEnd() { profiling = false; }
    bool& profiling;
  } const at_end{profiling_};
  const auto begin = StepProfile::Clock::now();
  for (int r = 0; r < replicas.size(); ++r) {
    EngineLoop& loop = replicas.at(r).loop();
    std::function<bool(Engine&)> start = [&loop](Engine&) {
      loop.profile().Begin();
      return true;
    };
    [[maybe_unused]] const bool begun = co_await OnEngine(loop, std::move(start));
  }
  const asio::any_io_executor io = co_await asio::this_coro::executor;
  asio::steady_timer timer(io);
  timer.expires_after(std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::duration<double>(seconds)));
  co_await timer.async_wait(asio::use_awaitable);
  std::string events;
  size_t left_out = 0;
  for (int r = 0; r < replicas.size(); ++r) {
    EngineLoop& loop = replicas.at(r).loop();
    std::function<StepProfile::Recording(Engine&)> stop = [&loop](Engine&) { return loop.profile().End(); };
    const StepProfile::Recording recording = co_await OnEngine(loop, std::move(stop));
    AppendTrace(recording, r, begin, events);
    left_out += recording.num_left_out;
  }
  HttpResponse response;
  response.body = fmt::format(R"({{"displayTimeUnit":"ms","otherData":{{"spans_left_out":{}}},"traceEvents":[{}]}})",
                              left_out, events);
  co_return response;
}

asio::awaitable<HttpResponse> AdminControl::Abort(HttpRequest& request) {
  const Json body = BodyOf(request);
  const JsonFields fields(body);
  const bool all = fields.Flag("all", false);
  const std::string name = fields.Text("request").value_or("");
  if (all == !name.empty()) JsonFields::Refuse("request", "must be the id of an answer, or \"all\" must be true");
  int aborted = 0;
  for (ServedModel* const model : TakeAskedModels(models_, request)) {
    const auto workers = model->Hold();
    if (workers == nullptr) continue;
    Replicas& replicas = workers->replicas();
    for (int r = 0; r < replicas.size(); ++r) {
      std::function<int(Engine&)> abort = [all, name](Engine& engine) {
        std::vector<RequestId> ids;
        for (const auto& [id, running] : engine.requests()) {
          if (all || running->name == name) ids.push_back(id);
        }
        for (const RequestId id : ids) engine.Abort(id, RequestError::kAborted, "aborted by the operator");
        return static_cast<int>(ids.size());
      };
      const int here = co_await OnEngine(replicas.at(r).loop(), std::move(abort));
      aborted += here;
    }
  }
  co_return Answer({{"aborted", aborted}});
}

/// Handles POST /admin/migrate with {"request": ID_OF_AN_ANSWER, "replica": DESTINATION}, which moves a running request
/// to another replica. Answers when the move has begun; /admin/status counts the moves.
asio::awaitable<HttpResponse> AdminControl::Migrate(HttpRequest& request) {
  const auto workers = HoldAsked(TakeAskedModel(models_, request));
  Replicas& replicas = workers->replicas();
  const Json body = BodyOf(request);
  const JsonFields fields(body);
  const std::string name = fields.Text("request").value_or("");
  if (name.empty()) JsonFields::Refuse("request", "must be the id of an answer");
  const auto to = fields.Integer("replica", 0, replicas.size() - 1);
  if (!to) JsonFields::Refuse("replica", "is missing");
  const int destination = static_cast<int>(*to);
  int moved = 0;
  for (int r = 0; r < replicas.size(); ++r) {
    std::function<int(Engine&)> move = [&replicas, r, destination, name](Engine& engine) {
      int found = 0;
      for (const auto& [id, candidate] : engine.requests()) {
        if (candidate->name != name || r == destination) continue;
        replicas.migrations().Move(id, r, destination);
        ++found;
      }
      return found;
    };
    const int here = co_await OnEngine(replicas.at(r).loop(), std::move(move));
    moved += here;
  }
  co_return Answer({{"moving", moved}});
}

asio::awaitable<HttpResponse> AdminControl::Reshard(HttpRequest& request) {
  ServedModel& model = TakeAskedModel(models_, request);
  const auto workers = HoldAsked(model);
  const Json body = BodyOf(request);
  const GroupShape shape = ShapeFrom(body);
  try {
    model.replicas().at(0).deployment().CheckShape(shape);
  } catch (const Error& error) {
    throw ApiError(400, error.what(), "tensor");
  }
  const auto replica = JsonFields(body).Integer("replica", 0, model.replicas().size() - 1);
  HttpResponse response = co_await ReplaceWorkers(model, shape, replica);
  co_return response;
}

asio::awaitable<HttpResponse> AdminControl::RestartWorkers(HttpRequest& request) {
  ServedModel& model = TakeAskedModel(models_, request);
  const auto workers = HoldAsked(model);
  const Json body = BodyOf(request);
  const auto replica = JsonFields(body).Integer("replica", 0, model.replicas().size() - 1);
  HttpResponse response = co_await ReplaceWorkers(model, std::nullopt, replica);
  co_return response;
}

asio::awaitable<HttpResponse> AdminControl::ReplaceWorkers(ServedModel& model, std::optional<GroupShape> shape,
                                                           std::optional<int64_t> replica) {
  Replicas& replicas = model.replicas();
  const auto begin = std::chrono::steady_clock::now();
  for (int r = 0; r < replicas.size(); ++r) {
    if (replica && *replica != r) continue;
    Deployment& deployment = replicas.at(r).deployment();
    const asio::any_io_executor io = co_await asio::this_coro::executor;
    const auto handoff = std::make_shared<Handoff<std::string>>(io);
    replicas.at(r).loop().ReplaceWorkers(
        [&deployment, shape] { deployment.Reshape(shape.value_or(deployment.shape())); },
        [handoff](const std::string& error) { handoff->Deliver(error); });
    const std::string error = co_await handoff->Take();
    if (!error.empty()) throw ApiError(500, "the workers were not replaced: " + error);
    model.events().Publish(EventKind::kWorkersReplaced,
                           [r] { return ServerEvent{.replica = r, .text = "by an operator"}; });
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  co_return Answer({{"replaced", true}, {"seconds", took.count()}});
}

}  // namespace quire
