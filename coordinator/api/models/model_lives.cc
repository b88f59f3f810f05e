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
}

void ModelLives::Add(std::string name, int64_t bytes, double keep_alive, bool loaded, double now) {
  Model model{.name = std::move(name), .bytes = bytes, .keep_alive = keep_alive};
  if (loaded) model.phase = LifePhase::kLoaded, model.held = bytes, model.last_used = model.opened = now;
  models_.push_back(std::move(model));
}

void ModelLives::Wish(size_t model, double now) {
  Model& m = models_[model];
  if (m.wishes++ == 0) m.wished_since = now;
}

void ModelLives::NoWish(size_t model) {
  QUIRE_CHECK(models_[model].wishes > 0, "nobody waits for {}", models_[model].name);
  --models_[model].wishes;
}

void ModelLives::BeginUse(size_t model) { ++models_[model].users; }

void ModelLives::EndUse(size_t model, double now) {
  Model& m = models_[model];
  QUIRE_CHECK(m.users > 0, "no request uses {}", m.name);
  --m.users;
  m.last_used = now;
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
}

void ModelLives::OnFailed(size_t model, double now) {
  Model& m = models_[model];
  m.phase = LifePhase::kUnloaded;
  m.leaves = false;
  m.held = 0;
  ++m.failures;
  m.failed_at = now;
}

void ModelLives::OnUnloaded(size_t model) {
  Model& m = models_[model];
  m.phase = LifePhase::kUnloaded;
  m.leaves = false;
  m.held = 0;
}

void ModelLives::OnLost(size_t model, double now) {
  Leave(model);
  ++models_[model].failures;
  models_[model].failed_at = now;
}

bool ModelLives::IsOpen(size_t model, double now) const {
  const Model& m = models_[model];
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
  const bool idle = IsFree(m) && m.wishes == 0 && m.keep_alive >= 0;
  return idle ? m.last_used + m.keep_alive : kNever;
}

int64_t ModelLives::taken() const {
  int64_t bytes = 0;
  for (const Model& model : models_) bytes += model.held;
  return bytes;
}

/// The models without workers, or with sleeping ones, that somebody waits for, the longest wish first.
std::vector<size_t> ModelLives::WishedFor(double now) const {
  std::vector<size_t> wished;
  for (size_t i = 0; i < models_.size(); ++i) {
    const Model& model = models_[i];
    const bool can_come = model.phase == LifePhase::kUnloaded || model.phase == LifePhase::kAsleep;
    if (can_come && model.wishes > 0 && PauseOf(i, now) <= 0) wished.push_back(i);
  }
  std::ranges::stable_sort(wished, {}, [this](size_t i) { return models_[i].wished_since; });
  return wished;
}

/// True for a model whose workers may be ended now.
bool ModelLives::IsFree(const Model& model) const {
  return (model.phase == LifePhase::kLoaded || model.phase == LifePhase::kAsleep) && model.users == 0;
}

/// Chooses models without requests to unload, so that at least `missing` bytes become free: the least recently used
/// first, and no more than needed. Returns nothing when all such models together do not suffice. A model for which
/// requests wait may be chosen only while it gives way (closed_until).
std::vector<size_t> ModelLives::Victims(size_t wished, int64_t missing, double now) const {
  std::vector<size_t> free;
  for (size_t i = 0; i < models_.size(); ++i) {
    const Model& model = models_[i];
    if (i != wished && IsFree(model) && (model.wishes == 0 || now < model.closed_until)) free.push_back(i);
  }
  std::ranges::stable_sort(free, {}, [this](size_t i) { return models_[i].last_used; });
  std::vector<size_t> victims;
  int64_t gained = 0;
  for (const size_t i : free) {
    if (gained >= missing) break;
    victims.push_back(i);
    gained += models_[i].held;
  }
  if (gained < missing) return {};
  // If a larger model is unloaded anyway, smaller models that were chosen before may stay loaded: the most recently
  // used first.
  for (size_t v = victims.size(); v-- > 0;) {
    const int64_t bytes = models_[victims[v]].held;
    if (gained - bytes < missing) continue;
    gained -= bytes;
    victims.erase(victims.begin() + static_cast<std::ptrdiff_t>(v));
  }
  return victims;
}

/// Closes models in use to new requests, so that a wish that has waited for kPatience gets room when their requests
/// have ended. Returns true while models give way.
bool ModelLives::MakeWay(size_t wished, int64_t missing, double now) {
  if (now < models_[wished].wished_since + kPatience) return false;
  std::vector<size_t> others;
  for (size_t i = 0; i < models_.size(); ++i) {
    const LifePhase phase = models_[i].phase;
    if (i != wished && (phase == LifePhase::kLoaded || phase == LifePhase::kAsleep)) others.push_back(i);
  }
  const auto gives_way = [&](size_t i) { return now < models_[i].closed_until; };
  const auto stays = [&](size_t i) { return !gives_way(i) && !IsFree(models_[i]); };
  // Models that give way already come first, then models without requests, then models in use by the time since they
  // opened.
  std::ranges::stable_sort(others, {}, [&](size_t i) { return std::pair(stays(i), models_[i].opened); });
  std::vector<size_t> closing;
  for (const size_t i : others) {
    if (missing <= 0) break;
    if (stays(i) && now < models_[i].opened + kPatience) continue;
    closing.push_back(i);
    missing -= models_[i].held;
  }
  if (missing > 0) return false;
  for (const size_t i : closing) {
    if (gives_way(i)) continue;
    models_[i].closed_until = now + kTurn;
    models_[i].opened = now + kTurn + kTurn - kPatience;  // it gives way again when it has served for a turn
  }
  return true;
}

void ModelLives::Unload(size_t model, Orders& orders) {
  models_[model].phase = LifePhase::kUnloading;
  models_[model].closed_until = 0;
  models_[model].goes_to_sleep = false;
  orders.unload.push_back(model);
}

/// Unloads and puts to sleep what is due.
void ModelLives::Retire(double now, Orders& orders) {
  for (size_t i = 0; i < models_.size(); ++i) {
    Model& model = models_[i];
    if (!IsFree(model)) continue;
    if (model.leaves || now >= ExpiryOf(i)) {
      Unload(i, orders);
    } else if (model.goes_to_sleep) {
      model.phase = LifePhase::kFallingAsleep;
      model.closed_until = 0;
      orders.sleep.push_back(i);
    }
  }
}

/// Gives the model its memory.
void ModelLives::Load(size_t model, Orders& orders) {
  Model& m = models_[model];
  (m.phase == LifePhase::kAsleep ? orders.wake : orders.load).push_back(model);
  m.phase = LifePhase::kLoading;
  m.held = m.bytes;
}

ModelLives::Orders ModelLives::Decide(double now) {
  Orders orders;
  Retire(now, orders);
  int64_t leaving = 0;  // bytes of models that are being unloaded, and are not promised to a wish yet
  for (const Model& model : models_) leaving += model.phase == LifePhase::kUnloading ? model.held : 0;
  int64_t promised = 0;  // bytes that such models will free for wishes
  for (const size_t i : WishedFor(now)) {
    if (models_[i].phase == LifePhase::kUnloading) continue;  // an earlier wish had this sleeping model unloaded
    const int64_t needed = models_[i].bytes - models_[i].held;
    const int64_t missing = taken() + promised + needed - room_;
    if (missing <= 0) {
      Load(i, orders);
      continue;
    }
    if (missing > leaving) {
      const std::vector<size_t> victims = Victims(i, missing - leaving, now);
      if (victims.empty() && MakeWay(i, missing - leaving, now)) break;  // later wishes must not take the room
      if (victims.empty()) continue;
      for (const size_t victim : victims) {
        Unload(victim, orders);
        leaving += models_[victim].held;
      }
    }
    promised += needed;
  }
  if (WishedFor(now).empty()) {
    for (Model& model : models_) model.closed_until = 0;  // no wish needs the room any more
  }
  return orders;
}

double ModelLives::NextTime(double now) const {
  double next = kNever;
  for (size_t i = 0; i < models_.size(); ++i) {
    const Model& model = models_[i];
    next = std::min(next, ExpiryOf(i));
    if (now < model.closed_until) next = std::min(next, model.closed_until);
    if ((model.phase != LifePhase::kUnloaded && model.phase != LifePhase::kAsleep) || model.wishes == 0) continue;
    // While a request waits for a model, the times at which other models may be unloaded move.
    next = std::min(next, now + std::clamp(std::max(PauseOf(i, now), model.wished_since + kPatience - now), 0.05, 0.5));
  }
  return next;
}

std::string ModelLives::InTheWayOf(size_t model) const {
  std::string list;
  for (size_t i = 0; i < models_.size(); ++i) {
    const Model& other = models_[i];
    if (i == model || other.phase == LifePhase::kUnloaded) continue;
    list += list.empty() ? "" : ", ";
    if (other.phase == LifePhase::kLoading) list += other.name + " is loading";
    if (other.phase == LifePhase::kUnloading) list += other.name + " is unloading";
    if (other.phase == LifePhase::kFallingAsleep) list += other.name + " is falling asleep";
    if (other.phase == LifePhase::kAsleep) list += other.name + " is asleep";
    if (other.phase == LifePhase::kLoaded)
      list += fmt::format("{} has {} request{}", other.name, other.users, other.users == 1 ? "" : "s");
  }
  return list;
}

}  // namespace quire
