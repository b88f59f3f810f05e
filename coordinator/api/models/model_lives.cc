#include "coordinator/api/models/model_lives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "comm/base/error.h"

namespace quire {

namespace {
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kPauseAgain = 0.05;  // seconds between orders to pause requests that could not leave their workers yet
}  // namespace

void ModelLives::Add(std::string name, int64_t bytes, double keep_alive, bool loaded, double now) {
  Model model{.name = std::move(name), .bytes = bytes, .clients = ModelClients(keep_alive)};
  if (loaded) model.phase = LifePhase::kLoaded, model.held = bytes, model.last_used = model.opened = now;
  models_.push_back(std::move(model));
}

void ModelLives::Wish(size_t model, double now, const ModelClient& client) {
  models_[model].clients.AddWish(client, now);
}

void ModelLives::NoWish(size_t model, const ModelClient& client) {
  const bool waited = models_[model].clients.RemoveWish(client);
  QUIRE_CHECK(waited, "this client does not wait for {}", models_[model].name);
}

void ModelLives::BeginUse(size_t model, const ModelClient& client) {
  ++models_[model].users;
  models_[model].lines += client.background ? 1 : 0;
}

void ModelLives::EndUse(size_t model, double now, const ModelClient& client) {
  Model& m = models_[model];
  QUIRE_CHECK(m.users > 0, "no request uses {}", m.name);
  --m.users;
  m.lines -= client.background ? 1 : 0;
  m.last_used = now;
  m.clients.Used(client, now);
}

void ModelLives::Leave(size_t model) {
  Model& m = models_[model];
  m.leaves |= HasWorkers(m.phase);
}

void ModelLives::Sleep(size_t model) {
  Model& m = models_[model];
  m.goes_to_sleep |= m.phase == LifePhase::kLoaded && !m.leaves;
}

void ModelLives::OnAsleep(size_t model, int64_t bytes) {
  Model& m = models_[model];
  m.phase = LifePhase::kAsleep;
  m.goes_to_sleep = false;
  m.held = std::min(bytes, m.bytes);
}

void ModelLives::OnLoaded(size_t model, double now) {
  Model& m = models_[model];
  m.phase = LifePhase::kLoaded;
  m.failures = 0;
  m.leaves = false;
  m.last_used = m.opened = now;
  m.closed_until = 0;
  m.clients.Begin();
  turns_.Note(m.turn_of, now);
}

void ModelLives::OnFailed(size_t model, double now) {
  Model& m = models_[model];
  OnUnloaded(model);
  ++m.failures, m.failed_at = now;
}

void ModelLives::OnUnloaded(size_t model) {
  Model& m = models_[model];
  m.phase = LifePhase::kUnloaded;
  m.leaves = false;
  m.held = 0;
}

void ModelLives::OnLost(size_t model, double now) {
  Leave(model);
  ++models_[model].failures, models_[model].failed_at = now;
}

bool ModelLives::IsOpen(size_t model, double now, bool background) const {
  const Model& m = models_[model];
  for (size_t i = 0; background && i < models_.size(); ++i) {
    const Model& other = models_[i];
    if (CanCome(other.phase) && other.clients.HasWish() && PauseOf(i, now) <= 0) return false;
  }
  return m.phase == LifePhase::kLoaded && !m.leaves && !m.goes_to_sleep && now >= m.closed_until;
}

double ModelLives::PauseOf(size_t model, double now) const {
  const Model& m = models_[model];
  if (m.failures == 0) return 0;
  const double pause = std::min(kLongestPause, kFirstPause * std::exp2(std::min(m.failures - 1, 10)));
  return std::max(0.0, m.failed_at + pause - now);
}

double ModelLives::ExpiryOf(size_t model) const {
  const Model& m = models_[model];
  const bool idle = m.IsFree() && m.clients.wishes() == 0;
  return idle ? m.clients.End(m.opened) : kNever;
}

int64_t ModelLives::taken() const {
  int64_t bytes = 0;
  for (const Model& model : models_) bytes += model.held;
  return bytes;
}

/// Returns the unloaded or sleeping models that requests or operators wait for, without models in a pause after a
/// failed start. Orders them by the time when a request may cause the load; models that only batches want come last.
std::vector<size_t> ModelLives::WishedFor(double now) const {
  std::vector<size_t> wished;
  for (size_t i = 0; i < models_.size(); ++i) {
    const Model& model = models_[i];
    if (CanCome(model.phase) && model.clients.wishes() > 0 && PauseOf(i, now) <= 0) wished.push_back(i);
  }
  std::ranges::stable_sort(wished, {}, [this](size_t i) {
    const ModelClients& clients = models_[i].clients;
    return std::pair(!clients.HasWish(), clients.FirstDue(turns_, kShare).seconds);
  });
  return wished;
}

/// True when an open model keeps its workers although `wished` needs memory: for kTurn if other clients use it. If only
/// batches wait for `wished`: while ordinary requests use it or want it, and for kBatchRest after the last use.
bool ModelLives::Stays(const Model& model, const Model& wished, double now) const {
  if (now < model.closed_until) return false;
  if (!wished.clients.HasWish())
    return model.users > model.lines || model.clients.HasWish() || now < model.clients.LastUse() + kBatchRest;
  return now < model.opened + kTurn && model.clients.UsedByOthersThan(wished.clients);
}

/// Chooses models without requests to unload, least recently used first, so that `missing` bytes become free. If all
/// such models do not suffice, chooses none. Chooses a model that requests wait for only while it is closed to them.
std::vector<size_t> ModelLives::Victims(size_t wished, int64_t missing, double now) const {
  std::vector<size_t> free;
  for (size_t i = 0; i < models_.size(); ++i) {
    const Model& model = models_[i];
    if (i == wished || !model.IsFree() || Stays(model, models_[wished], now)) continue;
    if (!model.clients.HasWish() || now < model.closed_until) free.push_back(i);
  }
  std::ranges::stable_sort(free, {}, [this](size_t i) { return models_[i].last_used; });
  std::vector<int64_t> held;
  for (const size_t i : free) held.push_back(models_[i].held);
  std::vector<size_t> victims;
  for (const size_t place : FewestToFree(held, missing)) victims.push_back(free[place]);
  return victims;
}

/// True when the model is closed, or when Stays() is false and one of these holds: no request uses it; only batches use
/// it and another request waits for `wished`; it has served for kTurn, and a request has waited kPatience for `wished`.
bool ModelLives::MayClose(const Model& model, const Model& wished, double now) const {
  if (now < model.closed_until) return true;
  if (Stays(model, wished, now)) return false;
  if (model.IsFree() || (wished.clients.HasWish() && model.users == model.lines)) return true;
  return now >= wished.clients.WishedSince() + kPatience && now >= model.opened + kTurn;
}

/// Closes models in use to new requests, so that a request that has waited for long gets their memory once their
/// requests have ended. Closes none, and returns false, if that memory is less than `missing` bytes.
bool ModelLives::MakeWay(size_t wished, int64_t missing, double now) {
  std::vector<size_t> others;
  for (size_t i = 0; i < models_.size(); ++i) {
    const Model& model = models_[i];
    if (i != wished && MayGo(model.phase) && MayClose(model, models_[wished], now)) others.push_back(i);
  }
  // Closed models and models without requests come before models in use; each group begins with the longest serving.
  std::ranges::stable_sort(others, {}, [&](size_t i) {
    const bool stays = now >= models_[i].closed_until && !models_[i].IsFree();
    return std::pair(stays, models_[i].opened);
  });
  std::vector<size_t> closing;
  for (const size_t i : others) {
    if (missing <= 0) break;
    closing.push_back(i);
    missing -= models_[i].held;
  }
  if (missing > 0) return false;
  for (const size_t i : closing) {
    Model& model = models_[i];
    if (now < model.closed_until) continue;
    // Requests get kTurn seconds to end (lines of batches: 0), then are paused for kTurn. Then the model serves again.
    const bool only_lines = models_[wished].clients.HasWish() && model.users == model.lines;
    model.opened = model.closed_until = now + (only_lines ? 1 : 2) * kTurn;
  }
  return true;
}

void ModelLives::Unload(size_t model, Orders& orders) {
  models_[model].phase = LifePhase::kUnloading;
  models_[model].closed_until = 0;
  models_[model].goes_to_sleep = false;
  orders.unload.push_back(model);
}

/// Unloads free models that must leave or that no client wants loaded. Puts free models to sleep if this was ordered.
void ModelLives::Retire(double now, Orders& orders) {
  for (size_t i = 0; i < models_.size(); ++i) {
    Model& model = models_[i];
    if (!model.IsFree()) continue;
    if (model.leaves || now >= ExpiryOf(i)) {
      Unload(i, orders);
    } else if (model.goes_to_sleep) {
      model.phase = LifePhase::kFallingAsleep;
      model.closed_until = 0;
      orders.sleep.push_back(i);
    }
  }
}

/// Gives the model its memory, and records that the client of the first waiting request caused the load.
void ModelLives::Load(size_t model, double now, Orders& orders) {
  Model& m = models_[model];
  (m.phase == LifePhase::kAsleep ? orders.wake : orders.load).push_back(model);
  m.phase = LifePhase::kLoading;
  m.held = m.bytes;
  m.turn_of = m.clients.FirstDue(turns_, kShare).client;
  turns_.Note(m.turn_of, now);
}

ModelLives::Orders ModelLives::Decide(double now) {
  Orders orders;
  Retire(now, orders);
  int64_t leaving = 0;  // bytes of models that are being unloaded, not yet reserved for a waiting request
  for (const Model& model : models_) leaving += model.phase == LifePhase::kUnloading ? model.held : 0;
  int64_t promised = 0;      // bytes of such models that are reserved for waiting requests
  bool others_wait = false;  // a request that is no line of a batch waits for memory
  for (const size_t i : WishedFor(now)) {
    if (others_wait && !models_[i].clients.HasWish()) break;
    if (models_[i].phase == LifePhase::kUnloading) continue;  // an earlier request had this sleeping model unloaded
    const int64_t needed = models_[i].bytes - models_[i].held;
    const int64_t missing = taken() + promised + needed - room_;
    if (missing <= 0) {
      Load(i, now, orders);
      continue;
    }
    if (missing > leaving) {
      const std::vector<size_t> victims = Victims(i, missing - leaving, now);
      if (victims.empty() && MakeWay(i, missing - leaving, now)) break;  // later requests must not take the memory
      others_wait |= victims.empty();
      if (victims.empty()) continue;
      for (const size_t victim : victims) {
        Unload(victim, orders);
        leaving += models_[victim].held;
      }
    }
    promised += needed;
  }
  if (WishedFor(now).empty()) {
    // No waiting request needs memory, so no model is closed to new requests.
    for (Model& model : models_) model.closed_until = 0, model.opened = std::min(model.opened, now);
  }
  for (size_t i = 0; i < models_.size(); ++i) {
    const Model& model = models_[i];
    if (now < model.closed_until && now >= model.closed_until - kTurn && model.users > 0) orders.pause.push_back(i);
  }
  return orders;
}

double ModelLives::NextTime(double now) const {
  double next = kNever;
  for (size_t i = 0; i < models_.size(); ++i) {
    const Model& model = models_[i];
    next = std::min(next, ExpiryOf(i));
    if (now < model.closed_until) {
      const double pause = std::max(model.closed_until - kTurn, now + kPauseAgain);
      next = std::min({next, model.closed_until, model.users > 0 ? pause : kNever});
    }
    if (!CanCome(model.phase) || model.clients.wishes() == 0) continue;
    // While a request waits, the times at which other models may be unloaded change. So Decide is called soon.
    const double patience = model.clients.WishedSince() + kPatience - now;
    next = std::min(next, now + std::clamp(std::max(PauseOf(i, now), patience), 0.05, 0.5));
  }
  return next;
}

std::string ModelLives::InTheWayOf(size_t model) const {
  std::string list;
  for (size_t i = 0; i < models_.size(); ++i) {
    const Model& other = models_[i];
    if (i == model || other.phase == LifePhase::kUnloaded) continue;
    list += (list.empty() ? "" : ", ") + InWords(other);
  }
  return list;
}

}  // namespace quire
