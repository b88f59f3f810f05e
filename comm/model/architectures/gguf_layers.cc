#include "comm/model/architectures/gguf_layers.h"

#include <algorithm>

#include "comm/base/error.h"

namespace quire::architectures {

namespace {

/// Returns the list's values for the model's layers. The file may list further layers after them.
std::vector<int64_t> ListOf(const GgufConfig& config, const char* key, const ModelSpec& spec) {
  std::vector<int64_t> counts = config.Counts(key);
  if (counts.size() < spec.layers.size())
    Fail("{}: {} lists {} layers of {}", config.path(), key, counts.size(), spec.layers.size());
  counts.resize(spec.layers.size());
  return counts;
}

}  // namespace

void ReadCounts(const GgufConfig& config, const char* key, int64_t LayerSpec::*what, ModelSpec& spec,
                std::optional<int64_t> otherwise) {
  if (!config.IsList(key)) return spec.SetAll(what, otherwise ? config.Count(key, *otherwise) : config.Count(key));
  const std::vector<int64_t> counts = ListOf(config, key, spec);
  const int64_t largest = std::ranges::max(counts);
  for (size_t i = 0; i < counts.size(); ++i) spec.layers[i].*what = counts[i] == 0 ? largest : counts[i];
}

std::vector<bool> LayersWithout(const GgufConfig& config, const char* key, const ModelSpec& spec) {
  std::vector<bool> without(spec.layers.size());
  if (!config.IsList(key)) return without;
  const std::vector<int64_t> counts = ListOf(config, key, spec);
  for (size_t i = 0; i < without.size(); ++i) without[i] = counts[i] == 0;
  return without;
}

void SetMixerWithoutKeys(const GgufConfig& config, Mixer mixer, ModelSpec& spec) {
  const std::vector<bool> without_keys = LayersWithout(config, kGgufKvHeads, spec);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (without_keys[i]) spec.layers[i].mixer = mixer;
  }
}

Recurrence StateHeadsFromGguf(const GgufConfig& config, int64_t key_heads) {
  const int64_t values = config.Count("ssm.inner_size"), heads = config.Count("ssm.time_step_rank");
  if (heads < 1 || values % heads != 0)
    Fail("{}: ssm.inner_size = {} does not divide over {} heads", config.path(), values, heads);
  return {.taps = config.Count("ssm.conv_kernel"),
          .key_heads = key_heads,
          .value_heads = heads,
          .key_dim = config.Count("ssm.state_size"),
          .value_dim = values / heads,
          .rates_negated = true};
}

void DropFurtherLayers(const GgufConfig& config, ModelSpec& spec) {
  const int64_t further = config.Count("nextn_predict_layers", 0);
  if (further < 0 || further >= spec.num_layers())
    Fail("{}: nextn_predict_layers = {} of {} blocks", config.path(), further, spec.num_layers());
  spec.layers.resize(static_cast<size_t>(spec.num_layers() - further));
}

void KeepWindows(const GgufConfig& config, ModelSpec& spec, int64_t full_every) {
  const std::vector<int64_t> slides = config.Counts("attention.sliding_window_pattern");
  if (!slides.empty() && slides.size() != spec.layers.size()) {
    Fail("{}: attention.sliding_window_pattern lists {} layers of {}", config.path(), slides.size(),
         spec.layers.size());
  }
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const bool sliding = slides.empty() ? static_cast<int64_t>(i + 1) % full_every != 0 : slides[i] != 0;
    if (!sliding) spec.layers[i].window = 0;
  }
}

}  // namespace quire::architectures
