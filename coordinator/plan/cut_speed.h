#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/base/group_cut.h"

namespace quire {

/// The network between any two hosts.
struct HostLink {
  double bytes_a_second = 0;  // bytes a second that a host sends, and also receives
  double delay = 0;           // seconds that a byte takes to the other host
};

/// The seconds for which the ranks wait for each other in a step of some rows.
struct CutWait {
  double sum = 0;   // seconds of one all-reduce over the ranks of a stage, averaged over the stages; 0 on one host
  double turn = 0;  // seconds for the rows from the first stage to the last one, and for the sampled tokens back
};

/// Computes the waits of a step of `rows` rows from the link. host_of_rank: for each rank, the number of its host.
/// row_bytes: bytes of one token's row. All-reduces and hand-overs within a host are taken as instant.
CutWait WaitOver(const HostLink& link, const GroupCut& cut, const std::vector<int>& host_of_rank, int64_t row_bytes,
                 int64_t rows);

/// Returns the largest number of ranks that one stage has on one host.
int RanksOfStageOnHost(const GroupCut& cut, const std::vector<int>& host_of_rank);

/// The predicted time in which each of some streams gets a token. In a pipeline of S stages a step has 1 / S of the
/// streams: while one stage computes a step, the other stages compute the steps of the other streams.
struct CutSpeed {
  int tensor = 1, pipeline = 1;
  bool one_host = false;  // a group of fewer ranks, all of them on the first host
  int streams = 1;
  double compute = 0;  // seconds in which all stages compute one step, one after the other
  int64_t sums = 0;    // number of all-reduces over hosts in one step
  CutWait wait;
  double largest_stage = 1;  // the largest stage's part of the work of all stages

  /// Returns the seconds between two tokens of a stream. A stream's next step begins when its last one has gone through
  /// all stages, and when the largest stage has computed the steps of the other streams.
  double seconds() const {
    const double stages = compute + static_cast<double>(sums) * wait.sum;
    return std::max(stages + wait.turn, stages * largest_stage * std::min(streams, pipeline));
  }
  double tokens_a_second() const { return streams / seconds(); }
  /// Returns a text such as "-tp 2 -pp 1" or "-tp 1 on one host".
  std::string Name() const;
};

/// Returns the index of the entry with the most tokens per second at this number of streams. `speeds` must have such an
/// entry.
size_t BestCut(const std::vector<CutSpeed>& speeds, int streams);

/// Returns sentences that say which division is fastest for each number of streams, and by how much. Returns no
/// sentences for a single division.
std::vector<std::string> AdviceOf(const std::vector<CutSpeed>& speeds);

}  // namespace quire
