#pragma once

#include <map>
#include <set>
#include <string>

#include "coordinator/core/engine/engine.h"
#include "tests/sim/oracle.h"

namespace quire::sim {

/// An end without an answer: the error, and a part of the message to the client.
struct Ending {
  RequestError error;
  std::string words;
};
using Endings = std::map<RequestId, Ending>;

/// Returns the number of device blocks that the request needs at its full length if it shares no blocks.
int64_t BlocksAtLongest(const Ask& ask, const EngineOptions& options);

/// Returns a part of the message with which an engine must refuse the request; empty: the engine must accept it.
std::string RightRefusal(const Ask& ask, const EngineOptions& options, int usable_blocks);

/// Decides how requests without an answer must end, and how many tokens an answer may cost. Uses only the clients'
/// requests, the options and the losses of workers, and none of the engine's records.
class Judge {
 public:
  explicit Judge(const EngineOptions& options) : options_(options), cached_(options.blocks.prefix_caching) {}

  /// Records that an operator changed the options.
  void Changed(const LiveOptions& options);

  void Took(RequestId id, const Ask& ask, double now);
  /// Records that the request runs and that a step was sent.
  void Began(RequestId id) { records_.at(id).began = true; }
  /// Records that the request leaves the engine and will come back, with or without its computed blocks.
  void Departed(RequestId id, bool with_blocks);
  void CameBack(RequestId id, bool with_blocks);
  void Ended(RequestId id) { records_.erase(id); }
  void SwappedOut(RequestId id) { records_.at(id).swapped = true; }
  void Restarts(RequestId id) { records_.at(id).restarted = true; }

  /// Records a step's result: `count` tokens of the request were computed for good, and `drawn` tokens were sampled.
  void Computed(RequestId id, int count, int drawn);
  /// Records that the workers and all tokens that they computed are lost. `computed`: the requests of outstanding
  /// steps.
  void GroupLost(const std::set<RequestId>& computed);

  bool has_begun(RequestId id) const { return records_.at(id).began; }
  bool IsSuspect(RequestId id) const { return records_.at(id).lost >= options_.scheduler.suspect_after; }
  /// Returns the number of blocks that the largest present request needs, the null block included.
  int BlocksNeeded() const;

  /// Overdue returns the requests that must end because their time is up. MayEnd also returns the requests whose time
  /// is just up, within rounding; they may or may not end.
  Endings Overdue(double now) const { return OverdueBy(now, kRounding); }
  Endings MayEnd(double now) const { return OverdueBy(now, -kRounding); }
  /// Returns the requests that end when an epoch begins with this number of usable blocks.
  Endings GivenUp(int usable_blocks) const;
  /// Returns `ending` for every present request.
  Endings All(const Ending& ending) const;

  /// Throws Failure unless the steps of an answered request computed every token once, except the last sampled token
  /// and the first `cached_tokens`, which came from the cache.
  void CheckWork(RequestId id, int cached_tokens) const;

 private:
  static constexpr double kRounding = 1e-9;  // seconds by which sums of times may differ

  struct Record {
    Ask ask;
    double arrival = 0;
    bool began = false, away = false;
    bool swapped = false, restarted = false;  // computed tokens were moved to the host; computed tokens were lost
    int lost = 0, lost_alone = 0;             // epochs lost since the last token; those without other requests
    int64_t computed = 0, drawn = 0;
  };
  Endings OverdueBy(double now, double rounding) const;
  double MaxSeconds(const Record& record) const;

  EngineOptions options_;
  bool cached_;  // prefix caching was on at some time
  std::map<RequestId, Record> records_;
};

}  // namespace quire::sim
