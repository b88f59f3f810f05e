#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/api/models/model_lives.h"
#include "coordinator/api/models/model_report.h"
#include "coordinator/api/models/model_roster.h"

namespace quire {

/// Loads and unloads models, puts them to sleep and wakes them, as ModelLives decides. Requests wait while their model
/// is not loaded. Only the I/O thread uses this class.
class ModelKeeper {
 public:
  using Hooks = ModelHooks;
  using Report = ModelReport;
  using Refusal = ModelRefusal;

  /// One use of a loaded model. While an object of this class lives, the model's workers are not ended.
  class Use {
   public:
    Use(ModelKeeper& keeper, size_t model, ModelClient client);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    Replicas& replicas() const { return workers_->replicas(); }
    std::function<void()> pause;  // asks the user to give this use back and to ask for one later; called until it does

   private:
    friend class ModelKeeper;
    ModelKeeper& keeper_;
    const size_t model_;
    const ModelClient client_;
    const std::shared_ptr<ModelWorkers> workers_;
  };

  /// Called once: with a use of the model, or with null and the refusal.
  using Enter = std::function<void(std::unique_ptr<Use> use, const Refusal& refusal)>;

  /// Construct this object once ModelRoster::Start has loaded its models. The references must outlive this object.
  ModelKeeper(ModelRoster& models, boost::asio::io_context& io, Hooks hooks);

  /// Asks for a use of the model. If the model is open and no request waits for it, or if it cannot be loaded now,
  /// calls `enter` before returning, and returns 0. Otherwise calls `enter` later and returns the number of the wait,
  /// from 1 on. `most_seconds`: the longest wait in seconds, if longer than usual.
  uint64_t Ask(ServedModel& model, Enter enter, const ModelClient& client = {}, double most_seconds = 0);
  void Forget(uint64_t wait);  // ends the wait without a call of its `enter`
  /// Sets the seconds for which this client wants the model loaded after its requests; negative: forever.
  void KeepAlive(ServedModel& model, double seconds, const std::string& client);
  /// Unloads the model once its requests have ended, or cancels its start. Calls `done` once the model has no workers.
  void Unload(ServedModel& model, std::function<void()> done);
  void Close();  // refuses all waiting and later requests; called when the server ends
  /// Puts the model to sleep once its requests have ended. Calls `done` once the model sleeps, or has no workers.
  void Sleep(ServedModel& model, std::function<void()> done);
  /// Notes that the model has lost its workers for good. Refuses its requests, or prepares another start.
  void OnLost(size_t model, const std::string& reason);
  Report ReportOf(const ServedModel& model) const;
  int64_t room() const { return lives_.room(); }
  int64_t taken() const { return lives_.taken(); }

 private:
  struct Wait {
    uint64_t number = 0;
    size_t model = 0;
    ModelClient client;
    double deadline = 0;
    Enter enter;
  };

  static double Now();
  void Wake(), Pump();
  void LetIn(double now), Refuse(size_t model, double now);
  void Answer(std::list<Wait>::iterator wait, std::unique_ptr<Use> use, const Refusal& refusal);
  std::optional<Refusal> WhyNot(size_t model, double now) const;
  void BeginLoad(size_t model), BeginSleep(size_t model), WakeUp(size_t model), BeginUnload(size_t model);
  void AfterLoad(size_t model, const std::exception_ptr& failure);
  void AfterSleep(size_t model, int64_t bytes);
  void TryUnload(size_t model), AfterUnload(size_t model);

  ModelRoster& models_;
  boost::asio::io_context& io_;
  const Hooks hooks_;
  ModelLives lives_;
  std::vector<ModelStarts> told_;
  std::list<Wait> waits_;  // the oldest first
  std::set<Use*> uses_;
  uint64_t next_wait_ = 1;
  boost::asio::steady_timer timer_;
  bool woken_ = false, closed_ = false;
};

}  // namespace quire
