// Measures sampling of a batch of rows from a large vocabulary.
#include "kernels/cuda/sampling/sampling.h"

#include <fmt/format.h>

#include "worker/cuda/bench/bench.h"
#include "worker/cuda/bench/bench_kernels.h"
#include "worker/cuda/bench/paged_batch.h"

namespace quire::bench {

namespace {

constexpr int64_t kVocab = 128256;

kernels::DeviceSampling Settings(float temperature, float top_p, int32_t top_k, size_t row) {
  kernels::DeviceSampling s{};
  s.draws = 1;
  s.temperature = temperature;
  s.top_p = top_p;
  s.top_k = top_k;
  s.repetition = 1;
  s.seed = 11 + row;
  s.position = row;
  s.num_logprobs = -1;
  s.count_slot = -1;
  return s;
}

}  // namespace

void BenchSampling(Bench& bench) {
  Device& device = bench.device();
  for (const int64_t rows : {1, 64}) {
    const int64_t sets = SetsFor(rows * kVocab * 4);
    const DeviceMemory logits = device.Allocate(sets * rows * kVocab * 4, "logits");
    FillRandom(device.stream(), logits.as<void>(), sets * rows * kVocab, NumberType::kF32, 12, 12);
    const DeviceMemory drawn = device.Allocate(rows * static_cast<int64_t>(sizeof(kernels::DrawnToken)), "draws"),
                       workspace = device.Allocate(kernels::SamplingWorkspaceBytes(rows, kVocab), "sampling");
    struct Way {
      const char* name;
      float temperature, top_p;
      int32_t top_k;
      DeviceMemory settings;
    };
    Way ways[] = {{"greedy", 0, 1, 0, {}},
                  {"temperature", 1, 1, 0, {}},
                  {"top-k 50", 1, 1, 50, {}},
                  {"top-k 50, top-p 0.9", 1, 0.9f, 50, {}},
                  {"top-p 0.9", 1, 0.9f, 0, {}}};
    std::vector<Variant> variants;
    for (Way& way : ways) {
      std::vector<kernels::DeviceSampling> settings;
      for (size_t row = 0; row < static_cast<size_t>(rows); ++row)
        settings.push_back(Settings(way.temperature, way.top_p, way.top_k, row));
      way.settings = OnDevice(device, settings);
      variants.push_back({way.name, [&, rows](int64_t set) {
                            kernels::SamplingRows in{};
                            in.rows = way.settings.as<kernels::DeviceSampling>();
                            in.logits = logits.as<float>() + set * rows * kVocab;
                            in.num_rows = rows;
                            in.row_stride = kVocab;
                            in.vocab = kVocab;
                            in.workspace = workspace.as<void>();
                            SampleRows(device.stream(), in, drawn.as<kernels::DrawnToken>());
                          }});
    }
    bench.Measure({.section = "sampling",
                   .name = fmt::format("{} rows of {}", rows, kVocab),
                   .bytes = 4.0 * static_cast<double>(rows * kVocab),
                   .formula = "every fp32 logit once; uniform logits, the worst case of top-p",
                   .sets = sets,
                   .facts = {{"rows", rows}},
                   .output = {drawn.as<void>(), drawn.bytes()}},
                  variants);
  }
}

}  // namespace quire::bench
