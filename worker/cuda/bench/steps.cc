// Measures whole decode steps of the engine as a server runs them: one step ahead, with sampling and results.
#include "worker/cuda/bench/steps.h"

#include <fmt/format.h>

#include "comm/model/model_files.h"
#include "worker/cuda/bench/bench_kernels.h"
#include "worker/cuda/bench/made_up_model.h"
#include "worker/cuda/bench/step_runner.h"

namespace quire::bench {

namespace {

constexpr int kRounds = 5, kStepsPerRound = 20, kWarmUp = 4;
constexpr int kMostSteps = kWarmUp + kRounds * kStepsPerRound + 4;
constexpr int kLayersOf8B = 32;

StepRunner MakeRunner(const ModelFiles& files, int batch, int context) {
  return StepRunner(files, {.batch = batch, .context = context, .most_steps = kMostSteps});
}

struct StepTimes {
  Timing overlapped, one_by_one;
};

StepTimes MeasureSteps(const ModelFiles& files, int batch, const StepBench& options) {
  StepRunner runner = MakeRunner(files, batch, options.context);
  for (int step = 0; step < kWarmUp; ++step) runner.Run();
  std::vector<double> overlapped, one_by_one;
  for (int round = 0; round < kRounds / 2 + 1; ++round) {
    overlapped.push_back(runner.Overlapped(kStepsPerRound));
    if (round < kRounds / 2) one_by_one.push_back(runner.OneByOne(kStepsPerRound));
  }
  return {Summarise(overlapped), Summarise(one_by_one)};
}

/// Returns the bytes of the weights and of the KV cache that a step must read.
double StepBytes(const MadeUpShape& shape, int64_t layers, int batch, int context) {
  const double weights = 2.0 * static_cast<double>(layers * shape.LayerParameters() + shape.HeadParameters());
  const double kv = 2.0 * 2 * static_cast<double>(layers * shape.kv_heads * shape.head_dim) * batch * context;
  return weights + kv;
}

Case StepCase(const MadeUpShape& shape, int64_t layers, int batch, const StepBench& options, const std::string& what) {
  return {.section = "decode steps",
          .name = fmt::format("{} sequences of {}, {}", batch, options.context, what),
          .bytes = StepBytes(shape, layers, batch, options.context),
          .formula = "2 B * (weights without the embedding) + 2 * 2 B * layers * 8 * 128 * tokens in the cache",
          .facts = {{"batch", batch}, {"context", options.context}, {"layers", layers}}};
}

}  // namespace

void BenchSteps(Bench& bench, const StepBench& options) {
  MadeUpShape shape;
  std::vector<std::vector<StepTimes>> times;
  for (const int64_t layers : options.layers) {
    shape.layers = layers;
    const MadeUpModel model(shape, options.models);
    const ModelFiles files = ModelFiles::Open(model.path());
    if (options.profile) {
      StepRunner runner = MakeRunner(files, options.batches.front(), options.context);
      for (int step = 0; step < kWarmUp; ++step) runner.Run();
      BeginProfile();
      runner.Run();
      EndProfile();
      return;
    }
    auto& mine = times.emplace_back();
    for (const int batch : options.batches) {
      mine.push_back(MeasureSteps(files, batch, options));
      const Case c = StepCase(shape, layers, batch, options, fmt::format("{} layers", layers));
      bench.Keep(c, "one step ahead", mine.back().overlapped);
      bench.Keep(c, "one by one", mine.back().one_by_one);
    }
  }
  const auto [few, many] = options.layers;
  for (size_t b = 0; b < options.batches.size(); ++b) {
    const double at_few = times[0][b].overlapped.median, at_many = times[1][b].overlapped.median;
    const double layer = (at_many - at_few) / static_cast<double>(many - few);
    const double whole = at_few + layer * static_cast<double>(kLayersOf8B - few);
    Case c =
        StepCase(shape, kLayersOf8B, options.batches[b], options, fmt::format("{} layers, EXTRAPOLATED", kLayersOf8B));
    c.facts["extrapolated"] = true;
    c.facts["layer_us"] = 1e6 * layer;
    c.facts["rest_us"] = 1e6 * (at_few - layer * static_cast<double>(few));
    bench.Keep(c, fmt::format("from {} and {} layers", few, many), {whole, whole, whole});
  }
}

}  // namespace quire::bench
