#include "coordinator/plan/cut_speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include "comm/base/error.h"
#include "coordinator/cluster/launch/launcher.h"

namespace quire {

namespace {

/// Bytes of a rank's part that one piece of an all-reduce holds (comm/collective/host_arena.h).
constexpr int64_t kPieceBytes = 256 << 10;
/// MPI sends a long message only after it has asked the receiver and got an answer. So the message takes three delays
/// of the link.
constexpr int kLegsOfLong = 3;

double DelayOf(const HostLink& link, int64_t message_bytes) {
  return link.delay * (message_bytes <= kLongestUnaskedMessage ? 1 : kLegsOfLong);
}

/// Returns how many ranks of a stage each host has.
std::map<int, int> RanksByHost(const GroupCut& cut, const std::vector<int>& host_of_rank, int stage) {
  std::map<int, int> ranks;
  for (int place = 0; place < cut.stage_size(); ++place)
    ++ranks[host_of_rank[static_cast<size_t>(cut.RankAt(stage, place))]];
  return ranks;
}

/// Returns the seconds in which each host sends the parts of its ranks, `bytes` bytes each, to every other host; 0 with
/// a single host.
double Exchange(const HostLink& link, const std::map<int, int>& ranks_by_host, int64_t bytes) {
  if (ranks_by_host.size() == 1) return 0;
  const int most = std::ranges::max(std::views::values(ranks_by_host));
  double seconds = 0;
  for (int64_t begin = 0; begin < bytes; begin += kPieceBytes) {
    const int64_t message = std::min(kPieceBytes, bytes - begin) * most;
    seconds += DelayOf(link, message) +
               static_cast<double>(message) * static_cast<double>(ranks_by_host.size() - 1) / link.bytes_a_second;
  }
  return seconds;
}

/// Returns the seconds in which the rows go from the stage before `to` to stage `to`: each rank sends its part to the
/// rank with the same index, and the ranks of stage `to` then join the parts. `bytes`: bytes of all rows.
double HandOver(const HostLink& link, const GroupCut& cut, const std::vector<int>& host_of_rank, int to,
                int64_t bytes) {
  const int64_t part = bytes / cut.stage_size();
  std::map<int, int64_t> sent;  // bytes that leave each host
  for (int place = 0; place < cut.stage_size(); ++place) {
    const int from = host_of_rank[static_cast<size_t>(cut.RankAt(to - 1, place))];
    if (from != host_of_rank[static_cast<size_t>(cut.RankAt(to, place))]) sent[from] += part;
  }
  const double gather = Exchange(link, RanksByHost(cut, host_of_rank, to), part);
  if (sent.empty()) return gather;
  const int64_t most = std::ranges::max(std::views::values(sent));
  return gather + DelayOf(link, part) + static_cast<double>(most) / link.bytes_a_second;
}

}  // namespace

CutWait WaitOver(const HostLink& link, const GroupCut& cut, const std::vector<int>& host_of_rank, int64_t row_bytes,
                 int64_t rows) {
  QUIRE_CHECK(std::ssize(host_of_rank) == cut.num_ranks(), "{} hosts of {} ranks", host_of_rank.size(),
              cut.num_ranks());
  const int64_t bytes = row_bytes * rows;
  const int last = cut.num_stages() - 1;
  CutWait wait;
  for (int stage = 0; stage <= last; ++stage) {
    wait.sum += Exchange(link, RanksByHost(cut, host_of_rank, stage), bytes) / cut.num_stages();
    if (stage > 0) wait.turn += HandOver(link, cut, host_of_rank, stage, bytes);
  }
  if (last == 0) return wait;
  for (int place = 0; place < cut.stage_size(); ++place) {
    const int first_host = host_of_rank[static_cast<size_t>(cut.RankAt(0, place))];
    if (first_host == host_of_rank[static_cast<size_t>(cut.RankAt(last, place))]) continue;
    wait.turn += link.delay;  // the tokens; a few bytes
    break;
  }
  return wait;
}

int RanksOfStageOnHost(const GroupCut& cut, const std::vector<int>& host_of_rank) {
  int most = 0;
  for (int stage = 0; stage < cut.num_stages(); ++stage) {
    for (const auto& [host, ranks] : RanksByHost(cut, host_of_rank, stage)) most = std::max(most, ranks);
  }
  return most;
}

std::string CutSpeed::Name() const {
  if (one_host) return fmt::format("-tp {} on one host", tensor);
  return fmt::format("-tp {} -pp {}", tensor, pipeline);
}

size_t BestCut(const std::vector<CutSpeed>& speeds, int streams) {
  size_t best = speeds.size();
  for (size_t i = 0; i < speeds.size(); ++i) {
    if (speeds[i].streams != streams) continue;
    if (best == speeds.size() || speeds[i].seconds() < speeds[best].seconds()) best = i;
  }
  QUIRE_CHECK(best < speeds.size(), "no cut with {} streams", streams);
  return best;
}

std::vector<std::string> AdviceOf(const std::vector<CutSpeed>& speeds) {
  std::set<int> numbers;
  for (const CutSpeed& one : speeds) numbers.insert(one.streams);
  std::vector<std::string> lines;
  for (const int streams : numbers) {
    const CutSpeed& best = speeds[BestCut(speeds, streams)];
    std::string others;
    for (const CutSpeed& one : speeds) {
      if (one.streams != streams || &one == &best) continue;
      others += fmt::format("{}{:.2f} times as fast as {}", others.empty() ? ": " : ", ",
                            one.seconds() / best.seconds(), one.Name());
    }
    if (!others.empty())
      lines.push_back(fmt::format("{} for {} stream{}{}", best.Name(), streams, streams == 1 ? "" : "s", others));
  }
  return lines;
}

}  // namespace quire
