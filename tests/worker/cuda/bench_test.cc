// Tests quire-bench-kernels apart from timing, on the emulated device: its check of results, the random models that it
// stores on disk, and its comparison of decode steps with and without CUDA graphs.
#include "worker/cuda/bench/bench.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>

#include "simt/submit.h"
#include "tests/support/temporary_directory.h"
#include "worker/cuda/bench/made_up_model.h"
#include "worker/cuda/bench/result_check.h"
#include "worker/cuda/bench/step_answers.h"

namespace quire::bench {
namespace {

constexpr int64_t kRow = 8, kRows = 3;

uint16_t BFloat16(float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); }

/// A benchmark on rows of bf16 numbers on the emulated device.
struct Rows {
  Device device{0};
  Bench bench{device, 3};
  DeviceMemory memory = device.Allocate(kRows * kRow * 2, "rows");

  /// Queues a call that writes `value` to all numbers except the last, which gets `odd`.
  void Queue(float value, float odd) const {
    simt::Submit([this, value, odd] {
      std::fill_n(memory.as<uint16_t>(), kRows * kRow, BFloat16(value));
      memory.as<uint16_t>()[kRows * kRow - 1] = BFloat16(odd);
    });
  }
  Variant Writes(float value, float odd) const {
    return {"writes", [this, value, odd](int64_t) { Queue(value, odd); }};
  }
  void Measure(const std::vector<Variant>& variants, int64_t row) {
    bench.Measure(
        {.section = "a section", .name = "a case", .sets = 3, .output = {memory.as<void>(), memory.bytes(), row}},
        variants);
  }
};

TEST(ResultCheckTest, Measure_AcceptsResults_WhenTheyDifferByRoundingOfBf16) {
  Rows rows;
  rows.Measure({rows.Writes(1, 1.015625f), rows.Writes(1, 1)}, kRow);  // off by 1 or 2 units in the last place of bf16
  EXPECT_EQ(rows.bench.num_checks(), 2);
  EXPECT_EQ(rows.bench.num_wrong(), 0);
  const Json checks = rows.bench.Report().at("checks");
  EXPECT_NEAR(checks[0].at("difference").get<double>(), 0.015625 / std::sqrt(8.0), 1e-6);
  EXPECT_EQ(checks[0].at("against"), "writes");
}

TEST(ResultCheckTest, Measure_CountsAWrongResult_WhenOneNumberOfOneRowDiffers) {
  Rows rows;
  rows.Measure({rows.Writes(1, 1.0625f), rows.Writes(1, 1)}, kRow);
  EXPECT_EQ(rows.bench.num_wrong(), 1);
}

TEST(ResultCheckTest, Measure_CountsAWrongResult_WhenANumberIsNaN) {
  Rows rows;
  rows.Measure({rows.Writes(1, NAN), rows.Writes(1, 1)}, kRow);
  EXPECT_EQ(rows.bench.num_wrong(), 1);
}

TEST(ResultCheckTest, Measure_DoesNotCompareVariants_WhenTheRowLengthIsZero) {
  Rows rows;
  rows.Measure({rows.Writes(1, 1), rows.Writes(7, 7)}, 0);
  EXPECT_EQ(rows.bench.num_checks(), 2);
  EXPECT_EQ(rows.bench.num_wrong(), 0);
}

TEST(ResultCheckTest, Measure_ComparesEveryVariantWithTheReference_WhenTheOutputHasOne) {
  Rows rows;
  const auto wrong = [&](float judged) {
    const int64_t before = rows.bench.num_wrong();
    rows.bench.Measure({.section = "a section",
                        .name = "judged",
                        .output = {rows.memory.as<void>(), rows.memory.bytes(), kRow, "a judge",
                                   [&rows, judged] { rows.Queue(judged, judged); }}},
                       {rows.Writes(1, 1), rows.Writes(1, 1)});
    return rows.bench.num_wrong() - before;
  };
  EXPECT_EQ(wrong(1), 0);
  EXPECT_EQ(wrong(1.0625f), 2);
  EXPECT_EQ(rows.bench.Report().at("checks")[3].at("against"), "a judge");
}

TEST(ResultCheckTest, Measure_CountsAWrongResult_WhenAGraphLeavesOtherBytesThanACall) {
  Rows rows;
  float value = 0;
  rows.Measure({{"changes", [&](int64_t) { rows.Queue(value, value), ++value; }}}, 0);
  EXPECT_EQ(rows.bench.num_wrong(), 1);
}

TEST(ResultCheckTest, Measure_CountsAWrongResult_WhenAGraphRecordsNoWork) {
  Rows rows;
  const auto at_once = [&](int64_t) { std::fill_n(rows.memory.as<uint16_t>(), kRows * kRow, BFloat16(1)); };
  rows.Measure({{"not queued", at_once}}, 0);
  EXPECT_EQ(rows.bench.num_wrong(), 1);
}

TEST(ResultCheckTest, Measure_EndsGraphAndCallWithTheSameBufferSet) {
  Rows rows;
  const auto by_set = [&](int64_t set) { rows.Queue(static_cast<float>(set), 1); };
  rows.Measure({{"by set", by_set}}, 0);
  EXPECT_EQ(rows.bench.num_wrong(), 0);
}

TEST(ResultCheckTest, Measure_ChecksNothing_WhenACaseHasNoOutput) {
  Rows rows;
  rows.bench.Measure({.section = "a section", .name = "a case"}, {rows.Writes(1, 1)});
  EXPECT_EQ(rows.bench.num_checks(), 0);
}

MadeUpShape Small() {
  return {.layers = 2, .hidden = 64, .heads = 2, .kv_heads = 1, .head_dim = 64, .mlp = 96, .vocab = 257};
}

TEST(MadeUpModelTest, Files_AreReused_WhenTheSameShapeIsMadeAgainInAFolder) {
  const TemporaryDirectory folder;
  const std::string first = MadeUpModel(Small(), folder.path()).path();
  const auto file = std::filesystem::path(first) / "model.safetensors";
  const auto made = std::filesystem::last_write_time(file) - std::chrono::hours(1);
  std::filesystem::last_write_time(file, made);
  EXPECT_EQ(MadeUpModel(Small(), folder.path()).path(), first);
  EXPECT_EQ(std::filesystem::last_write_time(file), made);
  MadeUpShape more = Small();
  more.layers = 3;
  EXPECT_NE(MadeUpModel(more, folder.path()).path(), first);
}

TEST(MadeUpModelTest, Files_AreDeletedWithTheObject_WhenNoFolderIsGiven) {
  std::string path;
  {
    const MadeUpModel model(Small());
    path = model.path();
    EXPECT_TRUE(std::filesystem::exists(path + "/config.json"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(StepAnswersTest, Answers_AreEqualWithGraphsAndWithSingleKernels) {
  const MadeUpModel model(Small());
  const ModelFiles files = ModelFiles::Open(model.path());
  StepRun run{.batch = 3, .context = 20, .chunk_tokens = 16};
  run.engine.tune = false;
  const Json graphs = StepAnswers(files, run, 4);
  run.engine.graphs = false;
  const Json single = StepAnswers(files, run, 4);
  ASSERT_EQ(graphs.at("tokens").size(), 4);
  ASSERT_EQ(graphs.at("tokens")[0].size(), 3);
  EXPECT_LT(graphs.at("logprobs")[0][0].get<double>(), 0);
  EXPECT_EQ(FirstDifference(graphs, single), "");

  Json changed = single;
  changed["logprobs"][2][1] = std::nextafter(single["logprobs"][2][1].get<float>(), 0.0f);
  EXPECT_TRUE(FirstDifference(graphs, changed).starts_with("step 2: logprobs "));
  changed = single;
  changed["tokens"].erase(3);
  EXPECT_EQ(FirstDifference(graphs, changed), "4 steps instead of 3");
}

TEST(StepAnswersTest, SingleKernels_AreFusedAsInAGraph_WhenGraphsAreOff) {
  const auto queued = [](int64_t layers) {
    MadeUpShape shape = Small();
    shape.layers = layers;
    const MadeUpModel model(shape);
    StepRun run{.batch = 3, .context = 20, .chunk_tokens = 16};
    run.engine.tune = false, run.engine.graphs = false;
    StepRunner runner(ModelFiles::Open(model.path()), run);
    runner.Run();  // loads the kernels
    std::vector<simt::Work> work;
    simt::Recording() = &work;
    runner.Run();
    simt::Recording() = nullptr;
    return work.size();
  };
  EXPECT_EQ(queued(3) - queued(2), 6) << "kernels of a layer, fused where a graph's are";
}

}  // namespace
}  // namespace quire::bench
