// The part of ModelKeeper that loads models, puts them to sleep, wakes and unloads them, and notes lost workers.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "coordinator/api/models/model_keeper.h"

namespace quire {

namespace asio = boost::asio;

namespace {

std::string TextOf(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

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
    model.FinishStart([this, index](const std::string& reason) {
      asio::post(io_, [this, index, reason] { OnLost(index, reason); });
    });
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

void ModelKeeper::BeginSleep(size_t index) {
  spdlog::info("model {}: falling asleep", models_.at(index).name());
  models_.at(index).BeginSleep(
      [this, index](int64_t bytes) { asio::post(io_, [this, index, bytes] { AfterSleep(index, bytes); }); });
}

void ModelKeeper::AfterSleep(size_t index, int64_t bytes) {
  ServedModel& model = models_.at(index);
  model.NotePhase(LifePhase::kAsleep);
  lives_.OnAsleep(index, bytes);
  spdlog::info("model {}: asleep; {} MiB stay in memory", model.name(), bytes >> 20);
  model.events().Publish(EventKind::kModelState, [] { return ServerEvent{.text = "asleep"}; });
  for (const auto& done : std::exchange(told_[index].on_asleep, {})) done();
  Wake();
}

void ModelKeeper::WakeUp(size_t index) {
  ServedModel& model = models_.at(index);
  model.NotePhase(LifePhase::kLoaded);
  lives_.OnLoaded(index, Now());
  spdlog::info("model {}: awake", model.name());
  model.events().Publish(EventKind::kModelState, [] { return ServerEvent{.text = "awake"}; });
  hooks_.on_loaded(model);
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
  for (const auto& done : std::exchange(told_[index].on_asleep, {})) done();
  Wake();
}

void ModelKeeper::OnLost(size_t index, const std::string& reason) {
  const ServedModel& model = models_.at(index);
  if (!HasWorkers(lives_.phase(index))) return;
  if (model.topology().life.ends()) {
    // If the model is one that is loaded on request, the next request loads it again, after a pause. Until then the
    // model holds no memory.
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
