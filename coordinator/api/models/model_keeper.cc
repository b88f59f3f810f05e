#include "coordinator/api/models/model_keeper.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "comm/base/error.h"

namespace quire {

namespace asio = boost::asio;

namespace {

constexpr double kRetireSeconds = 0.02;  // between two looks whether reports still hold a model's workers

std::string TextOf(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

ModelKeeper::Use::Use(ModelKeeper& keeper, size_t model)
    : keeper_(keeper), model_(model), workers_(keeper.models_.at(model).Hold()) {
  keeper_.lives_.BeginUse(model_);
}

ModelKeeper::Use::~Use() {
  keeper_.lives_.EndUse(model_, Now());
  keeper_.Wake();
}

double ModelKeeper::Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ModelKeeper::ModelKeeper(ModelRoster& models, asio::io_context& io, Hooks hooks)
    : models_(models),
      io_(io),
      hooks_(std::move(hooks)),
      lives_(models.room() > 0 ? models.room() : std::numeric_limits<int64_t>::max()),
      told_(models.size()),
      timer_(io) {
  for (size_t i = 0; i < models.size(); ++i) {
    const ServedModel& model = models.at(i);
    const bool loaded = model.phase() == LifePhase::kLoaded;
    lives_.Add(model.name(), model.bytes(), model.topology().life.keep_alive, loaded, Now());
    told_[i].loads = loaded ? 1 : 0;
  }
  Wake();
}

std::optional<ModelKeeper::Refusal> ModelKeeper::WhyNot(size_t model, double now) const {
  const std::string& name = models_.at(model).name();
  if (closed_) return Refusal{503, "the server is shutting down"};
  if (models_.at(model).state() == ModelState::kLost)
    return Refusal{503, fmt::format("the workers of the model \"{}\" are lost", name)};
  const double pause = lives_.PauseOf(model, now);
  if (lives_.phase(model) != LifePhase::kUnloaded || pause <= 0) return std::nullopt;
  return Refusal{503, fmt::format("the model \"{}\" could not be loaded: its workers did not start, and the server's "
                                  "log says why; try again in {:.0f} s",
                                  name, std::ceil(pause))};
}

uint64_t ModelKeeper::Ask(ServedModel& model, Enter enter) {
  const double now = Now();
  const size_t index = model.index();
  if (const std::optional<Refusal> refusal = WhyNot(index, now)) {
    enter(nullptr, *refusal);
    return 0;
  }
  if (lives_.IsOpen(index, now) && lives_.wishes(index) == 0) {
    enter(std::make_unique<Use>(*this, index), {});
    return 0;
  }
  lives_.Wish(index, now);
  waits_.push_back({next_wait_++, index, now + hooks_.wait_seconds(), std::move(enter)});
  Wake();
  return waits_.back().number;
}

void ModelKeeper::Forget(uint64_t wait) {
  const auto found = std::ranges::find(waits_, wait, &Wait::number);
  if (found == waits_.end()) return;
  lives_.NoWish(found->model);
  waits_.erase(found);
  Wake();
}

void ModelKeeper::KeepAlive(ServedModel& model, double seconds) {
  if (!model.topology().life.ends()) return;
  lives_.KeepAlive(model.index(), seconds);
  Wake();
}

void ModelKeeper::Unload(ServedModel& model, std::function<void()> done) {
  const size_t index = model.index();
  if (lives_.phase(index) == LifePhase::kUnloaded) return done();
  told_[index].on_unloaded.push_back(std::move(done));
  lives_.Leave(index);
  if (lives_.phase(index) == LifePhase::kLoading) told_[index].cancelled = true, model.CancelStart();
  Wake();
}

void ModelKeeper::Close() {
  closed_ = true;
  Wake();
}

ModelKeeper::Report ModelKeeper::ReportOf(const ServedModel& model) const {
  const size_t i = model.index();
  const ModelStarts& told = told_[i];
  const double expiry = lives_.ExpiryOf(i);
  return {.users = lives_.users(i),
          .waiting = lives_.wishes(i),
          .loads = told.loads,
          .failures = told.failures,
          .expires_in = std::isinf(expiry) ? -1 : std::max(0.0, expiry - Now()),
          .load_seconds = told.load_seconds,
          .problem = told.problem};
}

/// Posts one Pump to the I/O thread; further calls before that Pump do nothing.
void ModelKeeper::Wake() {
  if (std::exchange(woken_, true)) return;
  asio::post(io_, [this] { Pump(); });
}

void ModelKeeper::Pump() {
  woken_ = false;
  const double now = Now();
  for (size_t i = 0; i < models_.size(); ++i) {
    if (WhyNot(i, now)) Refuse(i, now);
    if (told_[i].retiring) TryUnload(i);
  }
  LetIn(now);
  if (!closed_) {
    const ModelLives::Orders orders = lives_.Decide(now);
    for (const size_t model : orders.unload) BeginUnload(model);
    for (const size_t model : orders.load) BeginLoad(model);
  }
  double next = lives_.NextTime(now);
  for (const Wait& wait : waits_) next = std::min(next, wait.deadline);
  if (std::ranges::any_of(told_, &ModelStarts::retiring)) next = std::min(next, now + kRetireSeconds);
  if (std::isinf(next)) {
    timer_.cancel();
    return;
  }
  const std::chrono::duration<double> time(std::clamp(next - now, 0.001, 3600.0));
  timer_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(time));
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) Wake();
  });
}

/// Removes a wait and calls its `enter` with the use or the refusal.
void ModelKeeper::Answer(std::list<Wait>::iterator wait, std::unique_ptr<Use> use, const Refusal& refusal) {
  const Enter enter = std::move(wait->enter);
  lives_.NoWish(wait->model);
  waits_.erase(wait);
  enter(std::move(use), refusal);
}

/// Lets requests into open models, and refuses those that have waited too long. Answering one wait may end other waits,
/// so each search starts at the first wait again.
void ModelKeeper::LetIn(double now) {
  const auto is_over = [&](const Wait& wait) { return lives_.IsOpen(wait.model, now) || now >= wait.deadline; };
  for (auto wait = std::ranges::find_if(waits_, is_over); wait != waits_.end();
       wait = std::ranges::find_if(waits_, is_over)) {
    const size_t model = wait->model;
    if (lives_.IsOpen(model, now)) {
      Answer(wait, std::make_unique<Use>(*this, model), {});
      continue;
    }
    const std::string others = lives_.InTheWayOf(model);
    const bool loads = lives_.phase(model) == LifePhase::kLoading;
    const char* const why = loads ? "it is still loading" : "no memory became free";
    Answer(wait, nullptr,
           {503, fmt::format("the model \"{}\" was not ready in time: {}{}{}", models_.at(model).name(), why,
                             others.empty() ? "" : "; ", others)});
  }
}

/// Refuses all requests that wait for the model, because it cannot be loaded now.
void ModelKeeper::Refuse(size_t model, double now) {
  for (auto wait = std::ranges::find(waits_, model, &Wait::model); wait != waits_.end();
       wait = std::ranges::find(waits_, model, &Wait::model))
    Answer(wait, nullptr, WhyNot(model, now).value_or(Refusal{503, "the model is not loaded"}));
}

/// Returns a function, callable from any thread, that reports to OnLost that the model has lost its workers for good.
std::function<void(const std::string&)> ModelKeeper::LossOf(size_t model) {
  return
      [this, model](const std::string& reason) { asio::post(io_, [this, model, reason] { OnLost(model, reason); }); };
}

void ModelKeeper::BeginLoad(size_t index) {
  ServedModel& model = models_.at(index);
  spdlog::info("model {}: loading; {} of {} MiB are taken", model.name(), lives_.taken() >> 20, lives_.room() >> 20);
  told_[index].began = Now();
  model.BeginStart([this, index](const std::exception_ptr& failure) {
    asio::post(io_, [this, index, failure] { AfterLoad(index, failure); });
  });
}

void ModelKeeper::AfterLoad(size_t index, const std::exception_ptr& failure) {
  ServedModel& model = models_.at(index);
  ModelStarts& told = told_[index];
  const double now = Now();
  told.load_seconds = now - told.began;
  const bool cancelled = std::exchange(told.cancelled, false);
  if (failure == nullptr) {
    model.FinishStart(LossOf(index));
    lives_.OnLoaded(index, now);
    ++told.loads;
    told.problem.clear();
    spdlog::info("model {}: loaded in {:.1f} s", model.name(), told.load_seconds);
    model.events().Publish(EventKind::kModelState, [] { return ServerEvent{.text = "loaded"}; });
    hooks_.on_loaded(model);
    if (cancelled) model.CancelStart(closed_), lives_.Leave(index);
    return Wake();
  }
  model.DropStart();
  if (cancelled) {
    if (!closed_) model.CancelStart(false);
    lives_.OnUnloaded(index);
  } else {
    lives_.OnFailed(index, now);
    ++told.failures;
    told.problem = TextOf(failure);
    spdlog::error("model {}: not loaded: {}", model.name(), told.problem);
    model.events().Publish(EventKind::kModelState, [&] { return ServerEvent{.text = "not loaded: " + told.problem}; });
    Refuse(index, now);
  }
  for (const auto& done : std::exchange(told.on_unloaded, {})) done();
  Wake();
}

void ModelKeeper::BeginUnload(size_t index) {
  spdlog::info("model {}: unloading", models_.at(index).name());
  models_.at(index).Retire();
  told_[index].retiring = true;
  TryUnload(index);
}

void ModelKeeper::TryUnload(size_t index) {
  told_[index].retiring =
      !models_.at(index).EndWhenFree([this, index] { asio::post(io_, [this, index] { AfterUnload(index); }); });
}

void ModelKeeper::AfterUnload(size_t index) {
  ServedModel& model = models_.at(index);
  model.DropStart();
  told_[index].lost = false;
  lives_.OnUnloaded(index);
  spdlog::info("model {}: unloaded", model.name());
  model.events().Publish(EventKind::kModelState, [] { return ServerEvent{.text = "unloaded"}; });
  for (const auto& done : std::exchange(told_[index].on_unloaded, {})) done();
  Wake();
}

void ModelKeeper::OnLost(size_t index, const std::string& reason) {
  const ServedModel& model = models_.at(index);
  if (lives_.phase(index) != LifePhase::kLoaded) return;
  if (model.topology().life.ends()) {
    // A model that is loaded on request is loaded again, after a pause, and holds no memory until then.
    spdlog::error("model {}: its workers are lost: {}; the next request starts new ones", model.name(), reason);
    told_[index].problem = reason;
    ++told_[index].failures;
    lives_.OnLost(index, Now());
    return Wake();
  }
  told_[index].lost = true;
  const auto lost = static_cast<size_t>(std::ranges::count(told_, true, &ModelStarts::lost));
  Refuse(index, Now());
  if (lost == models_.size()) return hooks_.on_end(reason);
  spdlog::error("model {}: its workers are lost for good: {}; {} of {} models are left", model.name(), reason,
                models_.size() - lost, models_.size());
}

}  // namespace quire
