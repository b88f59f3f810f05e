#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/api/models/life_record.h"
#include "coordinator/api/models/model_clients.h"

namespace quire {

/// Decides which models are loaded, put to sleep, woken and unloaded, so that all models with workers fit into `room`
/// bytes. A wish is a request or an operator that waits for a model. Has no threads and reads no clock: the caller
/// reports every event with its time (seconds on a steady clock), calls Decide, and carries out the orders.
class ModelLives {
 public:
  /// Seconds for which a request waits for memory before models that are in use must free theirs.
  static constexpr double kPatience = 2;
  /// Seconds for which a model serves before another client's waiting request makes it free its memory. The model then
  /// takes no new requests for the same time, while its running requests may end. After that its requests are paused.
  static constexpr double kTurn = 10;
  /// A client whose request caused a load causes the next load no earlier than this many seconds later.
  static constexpr double kShare = 3 * kTurn;
  static constexpr double kBatchRest = 6 * kTurn;  // seconds since others last used a model until batches may unload it
  /// Seconds of pause after a failed start. Each further failure in a row doubles the pause, up to kLongestPause.
  static constexpr double kFirstPause = 1, kLongestPause = 60;

  using Orders = LifeOrders;

  /// `room`: the most bytes of all models that have workers at the same time.
  explicit ModelLives(int64_t room) : room_(room) {}
  /// Adds the next model. `bytes`: the memory of the model while it has workers. `keep_alive`: seconds without requests
  /// after which the model is unloaded; negative: never.
  void Add(std::string name, int64_t bytes, double keep_alive, bool loaded, double now);

  /// Notes that a request or an operator waits for the model. A later NoWish of the same client ends the wish.
  void Wish(size_t model, double now, const ModelClient& client = {});
  void NoWish(size_t model, const ModelClient& client = {});
  /// Notes that a request uses the model until EndUse. Requires IsOpen.
  void BeginUse(size_t model, const ModelClient& client = {});
  void EndUse(size_t model, double now, const ModelClient& client = {});
  /// Sets the seconds for which the model stays loaded after requests of this client; negative: forever.
  void KeepAlive(size_t model, double seconds, const std::string& client = "") {
    models_[model].clients.Keep(client, seconds);
  }
  /// Unloads the model once no request uses it. A later request loads it again.
  void Leave(size_t model);
  /// Puts a loaded model to sleep once no request uses it. A later request wakes it.
  void Sleep(size_t model);
  /// Notes that the model sleeps and takes this many bytes.
  void OnAsleep(size_t model, int64_t bytes);
  void OnLoaded(size_t model, double now);
  void OnFailed(size_t model, double now);
  void OnUnloaded(size_t model);
  /// Notes that a loaded or sleeping model has lost its workers. The model may be loaded again after the pause of a
  /// failed start.
  void OnLost(size_t model, double now);

  /// True when requests may enter: the model is loaded, and is not about to be unloaded, put to sleep or closed for
  /// another model. Lines of batches (`background`) also wait while other requests wait for memory.
  bool IsOpen(size_t model, double now, bool background = false) const;
  /// Returns the seconds until the model may be started again after a failed start; 0: now.
  double PauseOf(size_t model, double now) const;
  /// Returns the orders for the present moment: which models to load, unload, put to sleep, wake and pause. Sets the
  /// phases of these models accordingly.
  Orders Decide(double now);
  /// Returns the time at which Decide may have new orders even if nothing happens before; infinity: never.
  double NextTime(double now) const;
  /// Returns in words what the other models that have memory do with it: "a has 2 requests, b is loading".
  std::string InTheWayOf(size_t model) const;

  LifePhase phase(size_t model) const { return models_[model].phase; }
  int64_t held(size_t model) const { return models_[model].held; }  // bytes that the model takes now
  int users(size_t model) const { return models_[model].users; }
  int wishes(size_t model) const { return models_[model].clients.wishes(); }
  /// Returns the time at which a model without requests is unloaded. Infinity: never, or the model is in use.
  double ExpiryOf(size_t model) const;
  int64_t room() const { return room_; }
  /// Returns the bytes of all models that have workers.
  int64_t taken() const;

 private:
  using Model = LifeRecord;

  std::vector<size_t> WishedFor(double now) const;
  bool Stays(const Model& model, const Model& wished, double now) const;
  bool MayClose(const Model& model, const Model& wished, double now) const;
  std::vector<size_t> Victims(size_t wished, int64_t missing, double now) const;
  bool MakeWay(size_t wished, int64_t missing, double now);
  void Load(size_t model, double now, Orders& orders);
  void Unload(size_t model, Orders& orders);
  void Retire(double now, Orders& orders);

  int64_t room_;
  std::vector<Model> models_;
  ClientTurns turns_;  // when each client's waiting request last caused a load
};

}  // namespace quire
