#include "coordinator/api/models/model_keeper.h"

#include <fmt/format.h>

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

constexpr double kRetireSeconds = 0.02;  // seconds between two checks whether reports still use a model's workers

}  // namespace

ModelKeeper::Use::Use(ModelKeeper& keeper, size_t model, ModelClient client)
    : keeper_(keeper), model_(model), client_(std::move(client)), workers_(keeper.models_.at(model).Hold()) {
  keeper_.lives_.BeginUse(model_, client_);
  keeper_.uses_.insert(this);
}

ModelKeeper::Use::~Use() {
  keeper_.uses_.erase(this);
  keeper_.lives_.EndUse(model_, Now(), client_);
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

uint64_t ModelKeeper::Ask(ServedModel& model, Enter enter, const ModelClient& client, double most_seconds) {
  const double now = Now();
  const size_t index = model.index();
  if (const std::optional<Refusal> refusal = WhyNot(index, now)) {
    enter(nullptr, *refusal);
    return 0;
  }
  if (lives_.IsOpen(index, now, client.background) && lives_.wishes(index) == 0) {
    enter(std::make_unique<Use>(*this, index, client), {});
    return 0;
  }
  lives_.Wish(index, now, client);
  const double deadline = now + std::max(hooks_.wait_seconds(), most_seconds);
  waits_.push_back({next_wait_++, index, client, deadline, std::move(enter)});
  Wake();
  return waits_.back().number;
}

void ModelKeeper::Forget(uint64_t wait) {
  const auto found = std::ranges::find(waits_, wait, &Wait::number);
  if (found == waits_.end()) return;
  lives_.NoWish(found->model, found->client);
  waits_.erase(found);
  Wake();
}

void ModelKeeper::KeepAlive(ServedModel& model, double seconds, const std::string& client) {
  if (!model.topology().life.ends()) return;
  lives_.KeepAlive(model.index(), seconds, client);
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

void ModelKeeper::Sleep(ServedModel& model, std::function<void()> done) {
  const size_t index = model.index();
  const LifePhase phase = lives_.phase(index);
  if (phase != LifePhase::kLoaded && phase != LifePhase::kFallingAsleep) return done();
  told_[index].on_asleep.push_back(std::move(done));
  lives_.Sleep(index);
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
          .taken_bytes = lives_.held(i),
          .expires_in = std::isinf(expiry) ? -1 : std::max(0.0, expiry - Now()),
          .load_seconds = told.load_seconds,
          .problem = told.problem};
}

/// Posts one Pump() to the I/O thread. Further calls do nothing until that Pump() runs.
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
    for (const size_t model : orders.sleep) BeginSleep(model);
    for (const size_t model : orders.wake) WakeUp(model);
    for (const size_t model : orders.load) BeginLoad(model);
    for (const Use* use : uses_) {
      if (use->pause && std::ranges::count(orders.pause, use->model_) > 0) use->pause();
    }
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

/// Removes a wait and calls its `enter`, with the use of the model or with the refusal.
void ModelKeeper::Answer(std::list<Wait>::iterator wait, std::unique_ptr<Use> use, const Refusal& refusal) {
  const Enter enter = std::move(wait->enter);
  lives_.NoWish(wait->model, wait->client);
  waits_.erase(wait);
  enter(std::move(use), refusal);
}

/// Lets waiting requests use models that are open to requests (ModelLives::IsOpen), and refuses requests that have
/// waited too long. A call of `enter` may end other waits, so each search starts at the first wait again.
void ModelKeeper::LetIn(double now) {
  const auto is_open = [&](const Wait& wait) { return lives_.IsOpen(wait.model, now, wait.client.background); };
  const auto is_over = [&](const Wait& wait) { return is_open(wait) || now >= wait.deadline; };
  for (auto wait = std::ranges::find_if(waits_, is_over); wait != waits_.end();
       wait = std::ranges::find_if(waits_, is_over)) {
    const size_t model = wait->model;
    if (is_open(*wait)) {
      Answer(wait, std::make_unique<Use>(*this, model, wait->client), {});
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

/// Refuses all requests that wait for the model, because the model cannot be loaded now.
void ModelKeeper::Refuse(size_t model, double now) {
  for (auto wait = std::ranges::find(waits_, model, &Wait::model); wait != waits_.end();
       wait = std::ranges::find(waits_, model, &Wait::model))
    Answer(wait, nullptr, WhyNot(model, now).value_or(Refusal{503, "the model is not loaded"}));
}

}  // namespace quire
