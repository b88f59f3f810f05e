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

/// The coordinator's side of the wire: the handshake with every rank, the same plan to all of them, an answer from
/// each, and the watch over who is alive. Belongs to one thread. Every failure throws GroupFailure.
class WorkerGroup {
 public:
  struct Options {
    RankRoster::Options ranks;
    std::string data_endpoint;  // to bind; a tcp port of 0 takes any free one
    std::string ctrl_endpoint;
    std::chrono::seconds load_deadline{600};
    std::shared_ptr<const Vocabulary> vocabulary;  // null: no sequence may have a grammar
  };
  /// launcher: null where somebody else starts the workers. It outlives the group.
  explicit WorkerGroup(Options options, LauncherWatch* launcher = nullptr);

  /// Whoever is told and asked from now on; null: nobody. It outlives the group, or is taken back.
  void set_listener(WorkerGroupListener* listener) { listener_ = listener; }

  int size() const { return roster_.size(); }
  const std::string& data_endpoint() const { return data_endpoint_; }
  const std::vector<RankInfo>& ranks() const { return roster_.infos(); }
  bool encrypted() const { return options_.ranks.curve != nullptr; }
  /// As many as have keys, or any number without.
  int most_ranks() const { return encrypted() ? options_.ranks.curve->num_workers() : INT32_MAX; }
  /// Public keys of workers, by rank; none without encryption.
  std::vector<std::string> worker_keys() const {
    return encrypted() ? options_.ranks.curve->worker_keys() : std::vector<std::string>{};
  }
  /// Peers without a worker's key that were turned away.
  uint64_t num_refused_peers() const { return encrypted() ? options_.ranks.curve->num_refused() : 0; }
  /// Frames of peers that have a worker's key, but not that of the rank whose identity they took; dropped.
  uint64_t num_foreign_frames() const { return roster_.num_foreign_frames(); }

  /// The ranks so far count no more; those of a new epoch may join, `size` of them.
  void BeginEpoch(EpochId epoch, int size);

  /// Waits until every rank has joined: then ranks() says what they can compute on.
  void AwaitJoined(std::chrono::seconds patience);
  /// Tells every rank what to load, and waits until all have. The ctrl port is filled in.
  void Load(AssignMessage assign);
  /// Tells every rank to reserve its KV blocks (null blocks counted in) and waits until all have. Returns the seconds
  /// that the slowest takes to move a block to the host or back; 0 without host blocks.
  double Start(int num_blocks, int num_host_blocks, int state_blocks);

  /// Sends the plan to every rank. Ranks run plans in order; more may follow before it is answered.
  void SendStep(const StepPlan& plan);
  /// Waits for every rank's answer to the oldest plan under way. Only what all ranks agree on comes back.
  StepOutcome AwaitStep();
  /// One step, with nothing else under way.
  StepOutcome RunStep(const StepPlan& plan);

  /// A message about KV blocks or a grammar to one rank, in order with the plans. A rank that does not take it is lost,
  /// which shows at the next wait.
  void Send(Rank rank, const Message& message);

  /// Waits for wake_fd, minding the leases, up to the given time.
  void Idle(int wake_fd, int timeout_millis);

  /// Asks every rank to end; does not wait.
  void Shutdown(const std::string& reason);

 private:
  using Clock = std::chrono::steady_clock;

  /// True when it was a report that belongs to no step.
  bool HandleReport(Rank rank, const Frame& frame) const;
  void SendToAll(const Frame& frame, const char* what);
  /// One round of waiting: frames, leases, launcher. Data frames go to `handle`.
  void Pump(int wake_fd, int timeout_millis, const std::function<void(Rank, const Frame&)>& handle);
  /// Gives the launcher the time to say why a rank is gone, which it knows better; throws GroupFailure when it does.
  void HearLauncher();
  void HandleCtrl();
  void CheckLeases();
  void CheckProgress(Rank rank, const BeatMessage& beat);
  /// How long the rank that waited longest for a core did so during the step that is awaited.
  Clock::duration Starved() const;
  void OnAnswer(Rank rank, const Frame& frame);
  /// Pumps until every rank has sent what `handle` takes. Failures end it, as does the deadline: `what` says for what.
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
  std::optional<Rank> deaf_;  // a rank that did not take a message
  bool assigned_ = false;     // from then on ranks beat, and silence is a fault
  StepAnswers steps_;
  double seconds_per_token_ = 0;  // of recent steps, as the slowest rank measured them; 0 before the first
  Clock::time_point last_pump_ = Clock::now();
  RecentDelay own_delay_;  // in minding the workers
};

}  // namespace quire
