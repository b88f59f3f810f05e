#pragma once

#include <stdexcept>
#include <string>

#include "comm/base/types.h"

namespace quire {

/// Why a worker group was lost.
enum class LossCause {
  kDied,        // a process is gone
  kSilent,      // a process does not beat: stopped, hung whole, or its host or link is gone
  kHung,        // it beats, but its step does not end
  kReported,    // a worker said that it cannot go on
  kDisagreed,   // ranks answered for different steps, plans or tokens
  kBadFrame,    // what came over the wire is no frame, or not one that was asked for
  kNotStarted,  // it did not come up in time, or cannot be used
  kStopping,    // nobody needs the group any more
};

/// For logs and the label of quire:worker_group_losses_total.
inline const char* LossCauseName(LossCause cause) {
  constexpr const char* kNames[] = {"died",      "silent",    "hung",        "reported",
                                    "disagreed", "bad_frame", "not_started", "stopping"};
  return kNames[static_cast<int>(cause)];
}

/// A worker group that can no longer serve. The message names the rank.
class GroupFailure : public std::runtime_error {
 public:
  GroupFailure(LossCause why, Rank who, std::string where, const std::string& message)
      : std::runtime_error(message), cause(why), rank(who), host(std::move(where)) {}

  LossCause cause;
  Rank rank;         // -1: nobody in particular
  std::string host;  // of that rank, as it calls itself; empty: not known
  bool by_settings = false;  // of kReported: the worker says that another start would fail alike
};

}  // namespace quire
