#include "coordinator/api/admin/model_orders.h"

#include <fmt/format.h>

#include <boost/asio/this_coro.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/api/openai/on_engine.h"
#include "coordinator/api/openai/on_pool.h"
#include "coordinator/http/api_error.h"
#include "coordinator/http/handoff.h"

namespace quire {

namespace asio = boost::asio;

namespace {

/// Ends all requests that the model's engines have.
asio::awaitable<void> AbortAll(ServedModel& model, const char* why) {
  const auto workers = model.Hold();
  if (workers == nullptr) co_return;
  for (int r = 0; r < workers->replicas().size(); ++r) {
    std::function<bool(Engine&)> abort = [why](Engine& engine) {
      std::vector<RequestId> ids;
      for (const auto& [id, running] : engine.requests()) ids.push_back(id);
      for (const RequestId id : ids) engine.Abort(id, RequestError::kAborted, why);
      return true;
    };
    [[maybe_unused]] const bool done = co_await OnEngine(workers->replicas().at(r).loop(), std::move(abort));
  }
}

/// Throws ApiError 409 when the model has no workers. `verb` (sleep or wake) is the order that needs workers.
void CheckHasWorkers(const ServedModel& model, const char* verb) {
  if (HasWorkers(model.phase())) return;
  throw ApiError(409, fmt::format("the model \"{}\" is {}; only a loaded model can {}", model.name(),
                                  NameOf(model.state()), verb));
}

}  // namespace

asio::awaitable<void> LoadModel(ModelKeeper& keeper, ServedModel& model, HttpResponder& responder) {
  struct Outcome {
    int status = 200;
    std::string reason;
  };
  const asio::any_io_executor io = co_await asio::this_coro::executor;
  const auto handoff = std::make_shared<Handoff<Outcome>>(io);
  const uint64_t wait = keeper.Ask(model, [handoff](const auto& use, const ModelKeeper::Refusal& refusal) {
    handoff->Deliver(use != nullptr ? Outcome{} : Outcome{refusal.status, refusal.reason});
  });
  const WhenGone hook(responder, [&keeper, wait, handoff] {
    keeper.Forget(wait);
    handoff->Deliver({499, "the client left"});
  });
  const Outcome outcome = co_await handoff->Take();
  if (outcome.status == 200) co_return;
  const std::string problem = keeper.ReportOf(model).problem;
  throw ApiError(outcome.status, outcome.reason + (problem.empty() ? "" : ": " + problem));
}

asio::awaitable<void> UnloadModel(ModelKeeper& keeper, ServedModel& model, bool force) {
  const asio::any_io_executor io = co_await asio::this_coro::executor;
  const auto handoff = std::make_shared<Handoff<bool>>(io);
  keeper.Unload(model, [handoff] { handoff->Deliver(true); });
  if (force) co_await AbortAll(model, "the operator unloads the model");
  [[maybe_unused]] const bool done = co_await handoff->Take();
}

asio::awaitable<void> SleepModel(ModelKeeper& keeper, ServedModel& model, bool force) {
  CheckHasWorkers(model, "sleep");
  if (model.topology().compute.backend == BackendKind::kCuda)
    throw ApiError(
        400, fmt::format("the model \"{}\" is on GPUs, which do not sleep; unload it (/sleep?level=2)", model.name()));
  const asio::any_io_executor io = co_await asio::this_coro::executor;
  const auto handoff = std::make_shared<Handoff<bool>>(io);
  keeper.Sleep(model, [handoff] { handoff->Deliver(true); });
  if (force) co_await AbortAll(model, "the operator puts the model to sleep");
  [[maybe_unused]] const bool done = co_await handoff->Take();
}

asio::awaitable<void> WakeModel(ModelKeeper& keeper, ServedModel& model, HttpResponder& responder) {
  CheckHasWorkers(model, "wake");
  co_await LoadModel(keeper, model, responder);
}

}  // namespace quire
