#include "worker/bench/bench_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/base/parse_number.h"

namespace quire {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSeconds = 0.5;
constexpr int kFirstRounds = 3, kLeastRounds = 10, kMostRounds = 2000;

double SecondsOf(int rounds, const std::function<void()>& once) {
  const auto begin = Clock::now();
  for (int i = 0; i < rounds; ++i) once();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Returns the number of rounds that take about kSeconds, when kFirstRounds rounds have taken `seconds`; at least
/// kLeastRounds and at most kMostRounds.
int RoundsAfter(double seconds) {
  return static_cast<int>(
      std::clamp(kSeconds * kFirstRounds / std::max(seconds, 1e-9), double{kLeastRounds}, double{kMostRounds}));
}

/// Measures, on one rank, how long a step waits for other ranks if the model is divided among the ranks in one given
/// way.
class CutBench {
 public:
  CutBench(int tensor, int stages, MpiBootstrap& mpi)
      : cut_{std::vector<double>(static_cast<size_t>(tensor), 1.0),
             stages > 1 ? std::vector<int32_t>(static_cast<size_t>(stages), 1) : std::vector<int32_t>()},
        mpi_(mpi),
        stage_(cut_.StageOf(mpi.rank())),
        collective_(mpi.MakeCollective(stage_)),
        link_(mpi.MakeStageLink(cut_)) {}

  /// Returns the seconds of one all-reduce of `bytes` bytes within a stage, averaged over ranks. Stages run one by one.
  double SumSeconds(int64_t bytes) {
    double seconds = 0;
    if (collective_->size() > 1) {
      const std::vector<float> part(static_cast<size_t>(bytes) / sizeof(float));
      std::vector<float> total(part.size());
      const auto once = [&] { collective_->AllReduceAdd(part, total); };
      AwaitBaton();
      float first = 0;  // summed over the stage's ranks, so that all choose the same number of rounds
      const auto took = static_cast<float>(SecondsOf(kFirstRounds, once));
      collective_->AllReduceAdd(std::span(&took, 1), std::span(&first, 1));
      const int rounds = RoundsAfter(double{first} / collective_->size());
      seconds = SecondsOf(rounds, once) / rounds;
      PassBaton();
    }
    return SumOverRanks(seconds) / mpi_.world_size();
  }

  /// Returns the mean seconds in which rows of `bytes` bytes in total go through all stages and `rows` tokens come
  /// back; 0 without a pipeline.
  double TurnSeconds(int64_t bytes, int rows) {
    if (link_ == nullptr) return 0;
    rows_.resize(static_cast<size_t>(bytes));
    tokens_.resize(static_cast<size_t>(rows) * sizeof(TokenId));
    const auto once = [&] { Turn(); };
    mpi_.Barrier();
    const double first = SecondsOf(kFirstRounds, once);
    const int rounds = RoundsAfter(SumOverRanks(first) / mpi_.world_size());
    return SumOverRanks(SecondsOf(rounds, once) / rounds) / mpi_.world_size();
  }

 private:
  void Turn() {
    const auto places = static_cast<size_t>(collective_->size());
    const size_t part = rows_.size() / places;
    const std::span<std::byte> mine(rows_.data(), part);
    if (stage_ > 0) {
      link_->Receive(stage_ - 1, mine);
      const std::vector<size_t> counts(places, part);
      if (places > 1) collective_->AllGather(mine, counts, std::span(rows_).first(part * places));
    }
    if (!link_->is_last()) {
      link_->Send(stage_ + 1, mine);
      link_->Receive(link_->num_stages() - 1, tokens_);
      return;
    }
    for (int stage = 0; stage < stage_; ++stage) link_->Send(stage, tokens_);
  }

  void AwaitBaton() {
    std::byte baton{};
    if (stage_ > 0) link_->Receive(stage_ - 1, std::span(&baton, 1));
  }
  void PassBaton() {
    const std::byte baton{};
    if (link_ != nullptr && !link_->is_last()) link_->Send(stage_ + 1, std::span(&baton, 1));
  }

  double SumOverRanks(double mine) const {
    double all = 0;
    for (const std::string& one : mpi_.GatherAll(fmt::format("{}", mine))) all += ParseNumber<double>(one).value_or(0);
    return all;
  }

  GroupCut cut_;
  MpiBootstrap& mpi_;
  int stage_;
  std::unique_ptr<Collective> collective_;
  std::unique_ptr<StageLink> link_;  // null without a pipeline
  std::vector<std::byte> rows_, tokens_;
};

/// Parses "2x1,1x2" into pairs (ranks of a stage, stages). Throws Error for a text of another form, and for a pair with
/// a product other than `ranks`.
std::vector<std::pair<int, int>> CutsOf(const std::string& text, int ranks) {
  std::vector<std::pair<int, int>> cuts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size()), cross = text.find('x', begin);
    if (cross >= end) Fail("--bench-links {}: give ranks of a stage x stages, as 2x1,1x2", text);
    const auto tensor = ParseNumber<int>(text.substr(begin, cross - begin)),
               stages = ParseNumber<int>(text.substr(cross + 1, end - cross - 1));
    if (!tensor || !stages || *tensor < 1 || *stages < 1 || int64_t{*tensor} * *stages != ranks)
      Fail("--bench-links {}: {} is no cut among {} ranks", text, text.substr(begin, end - begin), ranks);
    cuts.emplace_back(*tensor, *stages);
    begin = end + 1;
  }
  return cuts;
}

}  // namespace

int RunLinksBench(const LinksBench& bench, MpiBootstrap& mpi) {
  Json found = Json::array();
  for (const auto& [tensor, stages] : CutsOf(bench.cuts, mpi.world_size())) {
    CutBench cut(tensor, stages, mpi);
    for (const int rows : bench.rows) {
      const double sum = cut.SumSeconds(bench.row_bytes * rows), turn = cut.TurnSeconds(bench.row_bytes * rows, rows);
      found.push_back(
          {{"tensor", tensor}, {"pipeline", stages}, {"rows", rows}, {"sum_seconds", sum}, {"turn_seconds", turn}});
    }
  }
  if (mpi.rank() != 0) return 0;
  fmt::print("{}{}\n", kLinksWord, DumpJson(found));
  std::fflush(stdout);
  return 0;
}

}  // namespace quire
