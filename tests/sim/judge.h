#pragma once

#include <map>
#include <set>
#include <string>

#include "coordinator/core/engine.h"
#include "tests/sim/oracle.h"

namespace quire::sim {

/// An end without an answer: the error, and words of what the client is told.
struct Ending {
  RequestError error;
  std::string words;
};
using Endings = std::map<RequestId, Ending>;

/// Blocks of the device that the request needs at its longest with nothing shared.
int64_t BlocksAtLongest(const Ask& ask, const EngineOptions& options);

/// Words of the reason for which an engine must refuse; empty: it must take the request.
std::string RightRefusal(const Ask& ask, const EngineOptions& options, int usable_blocks);

/// What must become of requests that get no answer, and what an answer may cost. Worked out from what clients asked,
/// from the options and from what happened to the workers; never from what the engine noted.
class Judge {
 public:
  explicit Judge(const EngineOptions& options) : options_(options), cached_(options.blocks.prefix_caching) {}

  /// An operator changed these.
  void Changed(const LiveOptions& options);

  void Took(RequestId id, const Ask& ask, double now);
  /// It has a place among those that run, and a step was sent.
  void Began(RequestId id) { records_.at(id).began = true; }
  /// It leaves the engine to come back, with what was computed or without.
  void Departed(RequestId id, bool with_blocks);
  void CameBack(RequestId id, bool with_blocks);
  void Ended(RequestId id) { records_.erase(id); }
  void SwappedOut(RequestId id) { records_.at(id).swapped = true; }
  void Restarts(RequestId id) { records_.at(id).restarted = true; }

  /// A step's result is in: of these requests so many tokens were computed, and perhaps one drawn.
  void Computed(RequestId id, int count, bool drawn);
  /// The workers are gone while steps with these requests were outstanding. Whatever was computed is lost.
  void GroupLost(const std::set<RequestId>& computed);

  bool has_begun(RequestId id) const { return records_.at(id).began; }
  bool IsSuspect(RequestId id) const { return records_.at(id).lost >= options_.scheduler.suspect_after; }
  /// The null block, and what the largest of the requests that are here needs.
  int BlocksNeeded() const;

  /// Whose time is up. A request whose time is up at this very moment may end and need not: see MayEnd.
  Endings Overdue(double now) const { return OverdueBy(now, kRounding); }
  Endings MayEnd(double now) const { return OverdueBy(now, -kRounding); }
  /// Who ends when an epoch begins with so many blocks.
  Endings GivenUp(int usable_blocks) const;
  /// Everybody who is here.
  Endings All(const Ending& ending) const;

  /// Throws Failure unless an answered request cost what it must: every token but the last drawn one is computed once.
  void CheckWork(RequestId id, int cached_tokens) const;

 private:
  static constexpr double kRounding = 1e-9;  // seconds

  struct Record {
    Ask ask;
    double arrival = 0;
    bool began = false, away = false;
    bool swapped = false, restarted = false;  // computed tokens went to the host and back; were lost
    int lost = 0, lost_alone = 0;             // epochs in a row without a token
    int64_t computed = 0, drawn = 0;
  };
  Endings OverdueBy(double now, double rounding) const;
  double MaxSeconds(const Record& record) const;

  EngineOptions options_;
  bool cached_;  // prefixes were, at some time
  std::map<RequestId, Record> records_;
};

}  // namespace quire::sim
