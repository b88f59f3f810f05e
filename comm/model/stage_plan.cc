#include "comm/model/stage_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "comm/base/error.h"
#include "comm/model/architecture.h"

namespace quire {

namespace {

/// Returns how many numbers a token is multiplied with in each layer. The last layer's count includes the head. The
/// files may be closed.
std::vector<double> Products(const ModelFiles& files) {
  const ModelSpec& spec = files.spec();
  const std::vector<int64_t> of_layers = MatrixNumbersOfLayers(spec);
  std::vector<double> numbers(of_layers.begin(), of_layers.end());
  if (files.Has(Role::kHead)) numbers.back() += static_cast<double>(spec.vocab_size * spec.hidden_size);
  return numbers;
}

/// True when a stage may end before layer `begin`, because neither this layer nor a later one reads keys and values of
/// an earlier layer.
bool MayCutBefore(const ModelSpec& spec, int64_t begin) {
  for (int64_t layer = begin; layer < spec.num_layers(); ++layer) {
    const int64_t source = spec.layers[static_cast<size_t>(layer)].kv_from_layer;
    if (source >= 0 && source < begin) return false;
  }
  return true;
}

/// Returns true when the layers [begin, end) may be a stage.
bool MayBeStage(const ModelSpec& spec, int64_t begin, int64_t end) {
  return MayCutBefore(spec, begin) && MayCutBefore(spec, end);
}

/// Returns the largest number of stages that the model allows.
int64_t MostStages(const ModelSpec& spec) {
  int64_t stages = 0;
  for (int64_t end = 1; end <= spec.num_layers(); ++end) stages += MayCutBefore(spec, end) ? 1 : 0;
  return stages;
}

}  // namespace

std::string StagesProblem(const ModelSpec& spec, const std::vector<int32_t>& stage_layers) {
  if (stage_layers.empty()) return "";
  const int64_t sum = std::accumulate(stage_layers.begin(), stage_layers.end(), int64_t{0});
  if (sum != spec.num_layers() || std::ranges::min(stage_layers) < 1) {
    return fmt::format(
        "stages of {} layers do not make the model's {}; let parallel.stages add up to that, or leave it out",
        fmt::join(stage_layers, ", "), spec.num_layers());
  }
  int64_t begin = 0;
  for (size_t stage = 0; stage < stage_layers.size(); ++stage) {
    const int64_t end = begin + stage_layers[stage];
    if (!MayBeStage(spec, begin, end)) {
      return fmt::format(
          "stage {} cannot have layers {} to {}: a layer reads keys and values of a layer in another stage; change "
          "parallel.stages, or leave it out",
          stage, begin, end - 1);
    }
    begin = end;
  }
  return "";
}

std::vector<int32_t> PlanStages(const ModelFiles& files, int stages) {
  if (stages == 1) return {};
  const ModelSpec& spec = files.spec();
  if (const int64_t most = MostStages(spec); stages > most) {
    FailSettings(
        "pipeline parallel size {} is impossible: the model can be cut into 1 to {} stages; use fewer "
        "(--pipeline-parallel-size), or more workers a stage (--tensor-parallel-size)",
        stages, most);
  }
  const std::vector<double> products = Products(files);
  const auto layers = static_cast<size_t>(spec.num_layers());
  // largest[end] is the smallest possible size of the largest stage when `s` stages have the layers [0, end);
  // last[s][end] is the first layer of the last of these stages.
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> largest(layers + 1, kNever);
  largest[0] = 0;
  std::vector<std::vector<size_t>> last;
  for (int s = 0; s < stages; ++s) {
    std::vector<double> next(layers + 1, kNever);
    std::vector<size_t>& begins = last.emplace_back(layers + 1, 0);
    for (size_t end = 1; end <= layers; ++end) {
      double size = 0;
      for (size_t begin = end; begin-- > 0;) {
        size += products[begin];
        const double worst = std::max(largest[begin], size);
        if (worst >= next[end] || !MayBeStage(spec, static_cast<int64_t>(begin), static_cast<int64_t>(end))) continue;
        next[end] = worst;
        begins[end] = begin;
      }
    }
    largest = std::move(next);
  }
  std::vector<int32_t> stage_layers(static_cast<size_t>(stages));
  size_t end = layers;
  for (size_t s = stage_layers.size(); s-- > 0; end = last[s][end])
    stage_layers[s] = static_cast<int32_t>(end - last[s][end]);
  return stage_layers;
}

double PartOfLargestStage(const ModelFiles& files, const std::vector<int32_t>& stage_layers) {
  if (stage_layers.empty()) return 1;
  const std::vector<double> products = Products(files);
  double largest = 0;
  for (auto begin = products.begin(); const int32_t layers : stage_layers) {
    largest = std::max(largest, std::accumulate(begin, begin + layers, 0.0));
    begin += layers;
  }
  return largest / std::accumulate(products.begin(), products.end(), 0.0);
}

}  // namespace quire
