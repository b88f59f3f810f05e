#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/base/scheduling_delay.h"
#include "comm/wire/channel.h"
#include "comm/wire/messages.h"
#include "coordinator/cluster/group/group_failure.h"
#include "coordinator/cluster/group/rank_roster.h"
#include "coordinator/cluster/group/step_answers.h"
#include "coordinator/cluster/group/worker_group_listener.h"

namespace quire {

/// The coordinator's side of the wire protocol: makes the handshake with every rank, sends each plan to all ranks,
/// collects one answer from each rank and watches whether the ranks are alive. Belongs to one thread. Every failure
/// throws GroupFailure.
class WorkerGroup {
 public:
  struct Options {
    RankRoster::Options ranks;
    std::string data_endpoint;  // address to bind; a TCP port of 0 takes any free port
    std::string ctrl_endpoint;
    std::chrono::seconds load_deadline{600};
    std::shared_ptr<const Vocabulary> vocabulary;  // null: no sequence may have a grammar
  };
  /// Binds both endpoints. `launcher`: null when another party starts the workers. The launcher must outlive the group.
  explicit WorkerGroup(Options options, LauncherWatch* launcher = nullptr);

  /// Sets the listener; null: none. The listener must outlive the group or be reset.
  void set_listener(WorkerGroupListener* listener) { listener_ = listener; }

  int size() const { return roster_.size(); }
  const std::string& data_endpoint() const { return data_endpoint_; }
  const std::vector<RankInfo>& ranks() const { return roster_.infos(); }
  bool encrypted() const { return options_.ranks.curve != nullptr; }
  /// Returns the number of ranks that have keys, which bounds the ranks of a group; without encryption there is no
  /// bound.
  int most_ranks() const { return encrypted() ? options_.ranks.curve->num_workers() : INT32_MAX; }
  /// Returns the public keys of the workers, by rank; empty without encryption.
  std::vector<std::string> worker_keys() const {
    return encrypted() ? options_.ranks.curve->worker_keys() : std::vector<std::string>{};
  }
  /// Returns the number of connections refused because the peer had no worker's key.
  uint64_t num_refused_peers() const { return encrypted() ? options_.ranks.curve->num_refused() : 0; }
  /// Returns the number of frames dropped because the peer had a worker's key but used another rank's identity.
  uint64_t num_foreign_frames() const { return roster_.num_foreign_frames(); }

  /// Forgets the present ranks; `size` ranks of the new epoch may join.
  void BeginEpoch(EpochId epoch, int size);

  /// Waits up to `patience` until every rank has joined; then ranks() lists the ranks' hosts and devices.
  void AwaitJoined(std::chrono::seconds patience);
  /// Tells every rank which part of the model to load, and waits until all have loaded it. Sets the message's ctrl port
  /// if the endpoints are TCP ports.
  void Load(AssignMessage assign);
  /// Makes every rank reserve its KV blocks, and waits until all have done so. Returns the seconds that the slowest
  /// rank takes to move one block to the host or back; 0 without host blocks.
  double Start(const StartMessage& start);
  /// Returns the most bytes that grammars may take on each rank, as the last Start set them.
  const GrammarMemory& grammar_memory() const { return grammar_memory_; }

  /// Sends the plan to every rank. Ranks run plans in order. More plans may be sent before the answer comes.
  void SendStep(const StepPlan& plan);
  /// Waits until every rank has answered the oldest plan, and checks that all ranks agree.
  StepOutcome AwaitStep() { return AwaitStepFor(std::chrono::hours(24)).value(); }  // a rank that hangs fails earlier
  /// Like AwaitStep, but waits no longer than about `most`. Returns nullopt when an answer is still missing then.
  std::optional<StepOutcome> AwaitStepFor(std::chrono::milliseconds most);
  /// Sends a plan and awaits its result. No other plan may be outstanding.
  StepOutcome RunStep(const StepPlan& plan);

  /// Sends one rank a message about KV blocks, a grammar or an adapter. The rank handles the message in order with the
  /// plans. A rank that does not accept the message counts as lost, which the next wait reports.
  void Send(Rank rank, const Message& message);
  /// Sends every rank the message, as Send does.
  void SendToEach(const Message& message) {
    for (Rank rank = 0; rank < size(); ++rank) Send(rank, message);
  }

  /// Waits once: until wake_fd is readable, a worker sends something, or timeout_millis milliseconds have passed. Then
  /// checks heartbeats and the launcher.
  void Idle(int wake_fd, int timeout_millis);

  /// Asks every rank to end, and does not wait until the ranks have ended.
  void Shutdown(const std::string& reason);

 private:
  using Clock = std::chrono::steady_clock;

  /// Passes a report that belongs to no step to the listener, and returns true. Returns false for other frames.
  bool HandleReport(Rank rank, const Frame& frame) const;
  void SendToAll(const Frame& frame, const char* what);
  /// Waits once for heartbeats, data frames or input on wake_fd (-1: none), at most timeout_millis milliseconds. Calls
  /// `handle` for each data frame. Then checks heartbeats and the launcher.
  void Pump(int wake_fd, int timeout_millis, const std::function<void(Rank, const Frame&)>& handle);
  /// Waits up to a second for the launcher's report of the loss, which says more than a closed connection. Throws the
  /// report as GroupFailure; returns if no report comes.
  void HearLauncher();
  void HandleCtrl();
  void CheckLeases();
  void CheckProgress(Rank rank, const BeatMessage& beat);
  /// Returns the longest time for which a rank's computing thread has waited for a core since the awaited step began.
  Clock::duration Starved() const;
  void OnAnswer(Rank rank, const Frame& frame);
  /// Calls Pump until every rank has sent a message. `handle` checks each message. Throws GroupFailure after
  /// `patience`, or later on a busy machine (DelayOfStart); its text says that the first missing rank did not do
  /// `what`.
  void AwaitAll(const char* what, std::chrono::seconds patience,
                const std::function<void(Rank, const Message&)>& handle);
  [[noreturn]] void OnFailure(Rank rank, const FailureMessage& failure) const;

  bool Stopping() const { return listener_ != nullptr && listener_->Stopping(); }

  Options options_;
  LauncherWatch* launcher_;
  WorkerGroupListener* listener_ = nullptr;
  Channel data_, ctrl_;
  std::string data_endpoint_;
  RankRoster roster_;
  GrammarMemory grammar_memory_;
  std::optional<Rank> deaf_;  // a rank that did not accept a message
  bool assigned_ = false;     // true: ranks send heartbeats, and silence is a failure
  StepAnswers steps_;
  StepId awaited_step_ = 0;  // the last step for which AwaitStepFor has waited in this epoch
  UsualTime usual_time_;     // how long the slowest rank takes for a step
  Clock::time_point last_pump_ = Clock::now();
  RecentDelay own_delay_;  // delay of this process in polling the workers
};

}  // namespace quire
