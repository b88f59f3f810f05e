#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/api/models/life_phase.h"

namespace quire {

/// Decides which models are loaded, put to sleep, woken and unloaded, so that all models with workers fit into a room
/// of bytes. Holds no threads and reads no clock: the caller tells what happens and at what time (seconds on any steady
/// clock), asks Decide, and carries out the orders.
class ModelLives {
 public:
  /// A wish that waited so long for room makes models that are in use give way.
  static constexpr double kPatience = 2;
  /// A model that gives way takes no new requests for so long at most, then serves again for so long at least.
  static constexpr double kTurn = 10;
  /// The pause after a failed start, doubled with each further failure in a row, up to the second number.
  static constexpr double kFirstPause = 1, kLongestPause = 60;

  struct Orders {
    std::vector<size_t> load, unload, sleep, wake;
  };

  /// `room`: bytes of all models that have workers at the same time.
  explicit ModelLives(int64_t room) : room_(room) {}
  /// Adds the next model. `bytes`: what the model takes while it has workers. `keep_alive`: seconds without requests
  /// after which it is unloaded; negative: never.
  void Add(std::string name, int64_t bytes, double keep_alive, bool loaded, double now);

  /// A request or an operator waits for the model; a later NoWish or BeginUse of the same waiter ends the wish.
  void Wish(size_t model, double now);
  void NoWish(size_t model);
  /// A request uses the model until EndUse. Only while IsOpen.
  void BeginUse(size_t model);
  void EndUse(size_t model, double now);
  /// The time to keep a model from now on, until another time is given.
  void KeepAlive(size_t model, double seconds) { models_[model].keep_alive = seconds; }
  /// Unloads the model once no request uses it. Wishes that come later load it again.
  void Leave(size_t model);
  /// Puts a loaded model to sleep once no request uses it. Wishes that come later wake it.
  void Sleep(size_t model);
  /// The model sleeps and takes this many bytes.
  void OnAsleep(size_t model, int64_t bytes);
  void OnLoaded(size_t model, double now);
  void OnFailed(size_t model, double now);
  void OnUnloaded(size_t model);
  /// A loaded or sleeping model has lost its workers. It leaves, and is loaded again only after the pause of a failed
  /// start.
  void OnLost(size_t model, double now);

  /// True when requests may enter: the model is loaded and neither leaves, goes to sleep nor gives way to another.
  bool IsOpen(size_t model, double now) const;
  /// Seconds until a start may be tried again after a failed one; 0: now.
  double PauseOf(size_t model, double now) const;
  /// The orders of this moment; the phases of the ordered models change with the call.
  Orders Decide(double now);
  /// The time at which Decide may have new orders although nothing happens; infinity: never.
  double NextTime(double now) const;
  /// In words, which models have the room that this one needs: "a has 2 requests, b is loading".
  std::string InTheWayOf(size_t model) const;

  LifePhase phase(size_t model) const { return models_[model].phase; }
  int64_t held(size_t model) const { return models_[model].held; }  // bytes that the model takes now
  int users(size_t model) const { return models_[model].users; }
  int wishes(size_t model) const { return models_[model].wishes; }
  /// The time at which a model without requests is unloaded; infinity: never, or it is in use.
  double ExpiryOf(size_t model) const;
  int64_t room() const { return room_; }
  /// The bytes of all models that have workers.
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
