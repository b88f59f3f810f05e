#include "comm/model/architectures/gguf_layers.h"

#include "comm/base/error.h"

namespace quire::architectures {

int64_t CountOfLayers(const GgufConfig& config, const char* key, std::optional<int64_t> otherwise) {
  if (!config.IsList(key)) return otherwise ? config.Count(key, *otherwise) : config.Count(key);
  int64_t count = 0;
  for (const int64_t of_layer : config.Counts(key)) {
    if (of_layer == 0 || of_layer == count) continue;
    if (count != 0)
      Fail("{}: layers of several sizes are not supported: {} is {} and {}", config.path(), key, count, of_layer);
    count = of_layer;
  }
  return count;
}

std::vector<bool> LayersWithout(const GgufConfig& config, const char* key, const ModelSpec& spec) {
  std::vector<bool> without(spec.layers.size());
  if (!config.IsList(key)) return without;
  const std::vector<int64_t> counts = config.Counts(key);
  if (counts.size() < without.size())
    Fail("{}: {} lists {} layers of {}", config.path(), key, counts.size(), without.size());
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
