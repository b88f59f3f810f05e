#pragma once

#include <optional>
#include <vector>

#include "comm/model/config_reader.h"
#include "comm/model/model_spec.h"

// What GGUF says layer by layer.
namespace quire::architectures {

inline constexpr const char *kGgufKvHeads = "attention.head_count_kv", *kGgufMlpColumns = "feed_forward_length";

/// Gives layers what the file says once for all, or for each in a list, where 0 stands for layers that have no such
/// thing: they get the largest of the others. Throws Error where the list is too short, and where nothing is said and
/// there is no `otherwise`.
void ReadCounts(const GgufConfig& config, const char* key, int64_t LayerSpec::*what, ModelSpec& spec,
                std::optional<int64_t> otherwise = {});

/// Layers to which a list gives 0; none without a list.
std::vector<bool> LayersWithout(const GgufConfig& config, const char* key, const ModelSpec& spec);

/// Layers without keys have this mixer.
void SetMixerWithoutKeys(const GgufConfig& config, Mixer mixer, ModelSpec& spec);

/// Sizes of layers whose heads keep a state, of so many key heads, and how such files have rates. Throws Error where
/// sizes contradict each other.
Recurrence StateHeadsFromGguf(const GgufConfig& config, int64_t key_heads);

/// Layers that predict further tokens are counted as blocks, the last ones: leaves them out.
void DropFurtherLayers(const GgufConfig& config, ModelSpec& spec);

/// A GGUF's window is for all layers, or for those that attention.sliding_window_pattern lists: leaves it to
/// those or, without the list, to all but each `full_every`-th.
void KeepWindows(const GgufConfig& config, ModelSpec& spec, int64_t full_every);

}  // namespace quire::architectures
