// Plants bugs in the sampling kernels with sampling_bugs.py. The emulator or the comparison with the CPU's sampler must
// find each of them.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cuda/expect_bugs_found.h"
#include "kernels/cuda/sampling_case.h"
#include "planted_bugs.h"
#include "simt/expect_error.h"

namespace quire::kernels {
namespace {

struct Batch {
  std::vector<SamplingRow> rows;
  std::vector<int64_t> shards;  // empty: the vocabulary is not sharded
  int num_candidates = 24;
};

/// Makes one row for each of the settings.
std::vector<SamplingRow> Rows(SamplingRow row, std::initializer_list<SamplingParams> settings) {
  std::vector<SamplingRow> rows;
  for (const SamplingParams& params : settings) {
    row.params = params;
    row.key.position += uint64_t{1} << 33;
    rows.push_back(row);
  }
  return rows;
}

/// Makes random rows, and rows for bugs that random rows seldom show.
std::vector<Batch> Batches() {
  std::vector<Batch> batches;
  test::Random random(9);
  const auto add = [&](int64_t vocab, int count, std::vector<int64_t> shards) {
    Batch batch{{}, std::move(shards)};
    for (int i = 0; i < count; ++i) batch.rows.push_back(RandomRow(random, vocab));
    batches.push_back(std::move(batch));
  };
  SamplingRow row;
  row.logits.assign(40, -2.0f);
  row.logits[10] = -1, row.logits[11] = -1.05f;
  row.seen = {{10, 0}};
  row.penalties = {.repetition = 1.3f};
  batches.push_back({Rows(row, {{.temperature = 0}}), {}});
  row.penalties = {.presence = 0.7f};
  batches.push_back({Rows(row, {{.temperature = 0}}), {}});
  for (int32_t i = 38; i >= 0; --i) row.banned.push_back(i);
  row.bias = {{7, 2.0f}, {31, 1.0f}};
  batches.push_back({Rows(row, {{}, {}}), {}});
  add(300, 12, {}), add(700, 8, {300, 0, 400});
  row = {};
  for (int i = 0; i < 9001; ++i) row.logits.push_back(i < 8000 ? 0 : 2 + random.Signed());
  batches.push_back({Rows(row, {{}, {}, {.top_k = 600}, {.top_k = 4000, .top_p = 0.9f}, {.top_p = 0.8f}}), {}});
  batches.push_back({Rows(row, {{}, {}, {}, {}, {.top_p = 0.3f}, {.top_k = 30}}), {4000, 5001}});
  std::reverse(row.logits.begin(), row.logits.end());
  const SamplingParams flat{.temperature = 20, .top_k = 12};
  batches.push_back({Rows(row, {flat, flat, flat, flat}), {3000, 6001}, 7});
  row.num_logprobs = 20;
  batches.push_back({Rows(row, {{.top_k = 5}}), {3000, 6001}, 7});
  row.logits.assign(5000, 0.0f);
  row.logits[3] = -0.0f;
  row.num_logprobs = 12;
  batches.push_back({Rows(row, {{.temperature = 0}, {.top_k = 4500}, {.top_p = 0.5f}}), {}});
  batches.push_back({Rows(row, {{.temperature = 0}, {.top_k = 20}, {.top_p = 0.002f}}), {0, 2500, 2500}});
  for (size_t i = 0; i < row.logits.size(); ++i) row.logits[i] = static_cast<float>(i % 100) / 10;
  batches.push_back({Rows(row, {{}, {.temperature = 1e-39f}, {.top_k = 60}, {.temperature = 2, .min_p = 0.3f}}), {}});
  row.num_logprobs = 20;
  row.bias = {{4999, 20.0f}};
  batches.push_back({Rows(row, {{}, {.top_p = 0.9f}, {.temperature = 0}}), {30, 2470, 2500}});
  add(9001, 3, {});
  return batches;
}

/// Describes the first wrong row; empty if there is none.
std::string Hunt() {
  for (const Batch& batch : Batches()) {
    try {
      const Drawn drawn =
          batch.shards.empty() ? DrawWhole(batch.rows) : DrawSharded(batch.rows, batch.shards, batch.num_candidates);
      int near_misses = 0;
      for (size_t i = 0; i < batch.rows.size(); ++i) {
        const std::string difference = Difference(batch.rows[i], drawn.tokens[i], near_misses);
        if (!difference.empty()) return "row " + std::to_string(i) + ": " + difference;
      }
    } catch (const simt::SimtError& error) {
      return error.what();
    }
  }
  return "";
}

TEST(SamplingBugsTest, Hunt_FindsEveryPlantedBug_AndNothingWithoutBugs) { ExpectEveryBugIsFound(kPlantedBugs, Hunt); }

}  // namespace
}  // namespace quire::kernels
