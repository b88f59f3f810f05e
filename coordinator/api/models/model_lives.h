#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/api/models/life_phase.h"

namespace quire {

/// Decides which models are loaded, put to sleep, woken and unloaded, so that all models with workers fit into `room`
/// bytes. Has no threads and reads no clock: the caller reports every event with its time (seconds on a steady clock),
/// asks Decide, and carries out the orders.
class ModelLives {
 public:
  /// After a wish has waited for so many seconds for room, models in use give way.
  static constexpr double kPatience = 2;
  /// A model that gives way takes no new requests for at most so many seconds, then serves again for at least as long.
  static constexpr double kTurn = 10;
  /// Seconds of pause after a failed start. Each further failure in a row doubles the pause, up to kLongestPause.
  static constexpr double kFirstPause = 1, kLongestPause = 60;

  struct Orders {
    std::vector<size_t> load, unload, sleep, wake;
  };

  /// `room`: the most bytes of all models that have workers at the same time.
  explicit ModelLives(int64_t room) : room_(room) {}
  /// Adds the next model. `bytes`: the memory of the model while it has workers. `keep_alive`: seconds without requests
  /// after which it is unloaded; negative: never.
  void Add(std::string name, int64_t bytes, double keep_alive, bool loaded, double now);

  /// Notes that a request or an operator waits for the model. A later NoWish or BeginUse of the same waiter ends the
  /// wish.
  void Wish(size_t model, double now);
  void NoWish(size_t model);
  /// Notes that a request uses the model until EndUse. Requires IsOpen.
  void BeginUse(size_t model);
  void EndUse(size_t model, double now);
  /// Sets the seconds for which the model stays loaded without requests; negative: always.
  void KeepAlive(size_t model, double seconds) { models_[model].keep_alive = seconds; }
  /// Unloads the model once no request uses it. A later wish loads it again.
  void Leave(size_t model);
  /// Puts a loaded model to sleep once no request uses it. Wishes that come later wake it.
  void Sleep(size_t model);
  /// Notes that the model sleeps and takes this many bytes.
  void OnAsleep(size_t model, int64_t bytes);
  void OnLoaded(size_t model, double now);
  void OnFailed(size_t model, double now);
  void OnUnloaded(size_t model);
  /// Notes that a loaded or sleeping model has lost its workers: it is loaded again after the pause of a failed start.
  void OnLost(size_t model, double now);

  /// True when requests may enter: the model is loaded and neither leaves, goes to sleep nor gives way to another.
  bool IsOpen(size_t model, double now) const;
  /// Returns the seconds until a start may be tried again after a failed one; 0: now.
  double PauseOf(size_t model, double now) const;
  /// Returns the models to load and to unload now, and sets their phases to kLoading and kUnloading.
  Orders Decide(double now);
  /// Returns the time at which Decide may have new orders although nothing happens; infinity: never.
  double NextTime(double now) const;
  /// Returns in words which models have the memory that this model needs: "a has 2 requests, b is loading".
  std::string InTheWayOf(size_t model) const;

  LifePhase phase(size_t model) const { return models_[model].phase; }
  int64_t held(size_t model) const { return models_[model].held; }  // bytes that the model takes now
  int users(size_t model) const { return models_[model].users; }
  int wishes(size_t model) const { return models_[model].wishes; }
  /// Returns the time at which a model without requests is unloaded; infinity: never, or not while it is in use.
  double ExpiryOf(size_t model) const;
  int64_t room() const { return room_; }
  /// Returns the bytes of all models that have workers.
  int64_t taken() const;

 private:
  struct Model {
    std::string name;
    int64_t bytes = 0;  // while it is loaded
    int64_t held = 0;   // now
    double keep_alive = -1;
    LifePhase phase = LifePhase::kUnloaded;
    int users = 0, wishes = 0, failures = 0;
    double wished_since = 0, last_used = 0, opened = 0, failed_at = 0;
    double closed_until = 0;  // gives way to another model until then
    bool leaves = false, goes_to_sleep = false;
  };

  std::vector<size_t> WishedFor(double now) const;
  bool IsFree(const Model& model) const;
  std::vector<size_t> Victims(size_t wished, int64_t missing, double now) const;
  bool MakeWay(size_t wished, int64_t missing, double now);
  void Unload(size_t model, Orders& orders);
  void Retire(double now, Orders& orders);
  void Load(size_t model, Orders& orders);

  int64_t room_;
  std::vector<Model> models_;
};

}  // namespace quire
