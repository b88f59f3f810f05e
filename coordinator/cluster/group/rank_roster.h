#pragma once

#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "comm/wire/channel.h"
#include "comm/wire/messages.h"
#include "coordinator/cluster/group/group_failure.h"
#include "coordinator/cluster/group/rank_info.h"

namespace quire {

/// Who the ranks of an epoch are: whose frames count as which rank's, and what each said of itself. Belongs to one
/// thread, but for the counter.
class RankRoster {
 public:
  struct Options {
    EpochId epoch = 1;
    int size = 1;  // ranks
    /// Workers are started by somebody who does not know the epoch: they ask for it as they join.
    bool adopt = false;
    std::shared_ptr<CurveServer> curve;  // null: workers connect without keys
    std::string fingerprint;             // of the model that they must load
  };
  explicit RankRoster(Options options);

  /// The ranks so far count no more; those of a new epoch may join, `size` of them.
  void BeginEpoch(EpochId epoch, int size);
  /// From now on nobody takes another's place.
  void Close() { closed_ = true; }

  EpochId epoch() const { return options_.epoch; }
  int size() const { return options_.size; }
  const std::vector<RankInfo>& infos() const { return infos_; }
  std::vector<RankInfo>& infos() { return infos_; }
  RankInfo& info(Rank rank) { return infos_[static_cast<size_t>(rank)]; }
  const RankInfo& info(Rank rank) const { return infos_[static_cast<size_t>(rank)]; }
  /// Its identity on the data socket; empty: it has not joined.
  const std::string& Peer(Rank rank) const { return peers_[static_cast<size_t>(rank)]; }
  /// "rank 1 (pid 7 on host)", for messages.
  std::string Describe(Rank rank) const;

  /// The rank that a frame of the data socket comes from; -1: none of this epoch, or it came under another's key. A
  /// worker that asks to belong to the epoch becomes one of its ranks, unless the roster is closed.
  Rank SenderOf(const ReceivedFrame& received);
  /// The same for the ctrl socket, whose identities are known beforehand.
  Rank SenderOfBeat(const ReceivedFrame& received);
  /// Frames of peers that have a worker's key, but not that of the rank whose identity they took; dropped.
  uint64_t num_foreign_frames() const { return num_foreign_frames_; }

  // What a rank says of itself as it comes up. They throw GroupFailure when it is not what was expected.
  void Joined(Rank rank, const JoinMessage& join);
  void Loaded(Rank rank, const HelloMessage& hello);

  /// Throws GroupFailure with the rank's host.
  template <class... Args>
  [[noreturn]] void Fail(LossCause cause, Rank rank, fmt::format_string<Args...> format, Args&&... args) const {
    const std::string host = rank >= 0 && rank < size() ? info(rank).host : "";
    throw GroupFailure(cause, rank, host, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void ForgetPeers();
  /// False, and counted, when it came under another's key.
  bool IsFrom(const ReceivedFrame& received, Rank rank);
  Rank Adopt(const ReceivedFrame& received);

  Options options_;
  std::vector<RankInfo> infos_;
  std::vector<std::string> peers_;
  bool closed_ = false;
  std::atomic<uint64_t> num_foreign_frames_{0};
};

}  // namespace quire
