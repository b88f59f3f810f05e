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

/// The ranks of an epoch. Finds the rank that sent a frame, and keeps each rank's reports. Belongs to one thread,
/// except for the count of foreign frames.
class RankRoster {
 public:
  struct Options {
    EpochId epoch = 1;
    int size = 1;  // ranks
    /// True when another program starts the workers. Such workers ask for the epoch when they join.
    bool adopt = false;
    std::shared_ptr<CurveServer> curve;  // null: workers connect without keys
    std::string fingerprint;             // identifies the model that all ranks must load
  };
  explicit RankRoster(Options options);

  /// Forgets the present ranks. Then `size` ranks of the new epoch may join.
  void BeginEpoch(EpochId epoch, int size);
  /// Refuses all further workers that ask to join this epoch, so that none takes the place of a rank.
  void Close() { closed_ = true; }

  EpochId epoch() const { return options_.epoch; }
  int size() const { return options_.size; }
  const std::vector<RankInfo>& infos() const { return infos_; }
  std::vector<RankInfo>& infos() { return infos_; }
  RankInfo& info(Rank rank) { return infos_[static_cast<size_t>(rank)]; }
  const RankInfo& info(Rank rank) const { return infos_[static_cast<size_t>(rank)]; }
  /// Returns the rank's identity on the data socket. If another program starts the workers, the identity is empty until
  /// the rank has joined.
  const std::string& Peer(Rank rank) const { return peers_[static_cast<size_t>(rank)]; }
  /// Returns "rank 1 (pid 7 on host)", for messages.
  std::string Describe(Rank rank) const;

  /// Returns the rank that sent a frame on the data socket; -1 when the sender is no rank of this epoch, or when the
  /// frame came under another rank's key. A worker that asks to join becomes a rank, unless the roster is closed.
  Rank SenderOf(const ReceivedFrame& received);
  /// Returns the rank that sent a frame on the ctrl socket, or -1. All identities on the ctrl socket are known in
  /// advance.
  Rank SenderOfBeat(const ReceivedFrame& received);
  /// Returns the number of frames dropped because the peer had a worker's key but used another rank's identity.
  uint64_t num_foreign_frames() const { return num_foreign_frames_; }

  // Joined and Loaded record a rank's reports while the rank starts, and throw GroupFailure if a report is not as
  // expected.
  void Joined(Rank rank, const JoinMessage& join);
  void Loaded(Rank rank, const HelloMessage& hello);

  /// Throws GroupFailure with this message, the rank and its host.
  template <class... Args>
  [[noreturn]] void Fail(LossCause cause, Rank rank, fmt::format_string<Args...> format, Args&&... args) const {
    const std::string host = rank >= 0 && rank < size() ? info(rank).host : "";
    throw GroupFailure(cause, rank, host, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void ForgetPeers();
  /// Returns false, and counts the frame, when the frame came under another rank's key.
  bool IsFrom(const ReceivedFrame& received, Rank rank);
  Rank Adopt(const ReceivedFrame& received);

  Options options_;
  std::vector<RankInfo> infos_;
  std::vector<std::string> peers_;
  bool closed_ = false;
  std::atomic<uint64_t> num_foreign_frames_{0};
};

}  // namespace quire
