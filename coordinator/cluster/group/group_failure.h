#pragma once

#include <stdexcept>
#include <string>

#include "comm/base/types.h"

namespace quire {

/// The reason why a worker group was lost.
enum class LossCause {
  kDied,        // a process has ended
  kSilent,      // a process sends no heartbeats: stopped, hung as a whole, or its host or link is gone
  kHung,        // heartbeats arrive, but the step does not end
  kReported,    // a worker reported that it cannot continue
  kDisagreed,   // ranks answered for different steps, plans or tokens
  kBadFrame,    // a frame is malformed, or no frame of its kind was due
  kNotStarted,  // the group did not come up in time or cannot be used
  kStopping,    // the group is not needed any more
};

/// Returns the text for logs and for the label of quire:worker_group_losses_total.
inline const char* LossCauseName(LossCause cause) {
  constexpr const char* kNames[] = {"died",      "silent",    "hung",        "reported",
                                    "disagreed", "bad_frame", "not_started", "stopping"};
  return kNames[static_cast<int>(cause)];
}

/// The error that a worker group can no longer serve. The message names the rank, if a particular rank failed.
class GroupFailure : public std::runtime_error {
 public:
  GroupFailure(LossCause why, Rank who, std::string where, const std::string& message)
      : std::runtime_error(message), cause(why), rank(who), host(std::move(where)) {}

  LossCause cause;
  Rank rank;                 // the rank that failed; -1: no particular rank
  std::string host;          // the rank's host by its own name; empty: unknown
  bool by_settings = false;  // with kReported: the worker says that another start would fail, too
};

}  // namespace quire
