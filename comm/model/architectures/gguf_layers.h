#pragma once

#include <optional>
#include <vector>

#include "comm/model/config_reader.h"
#include "comm/model/model_spec.h"

// Readers of GGUF metadata that may differ between layers.
namespace quire::architectures {

inline constexpr const char *kGgufKvHeads = "attention.head_count_kv", *kGgufMlpColumns = "feed_forward_length";

/// Sets the field `what` of every layer from one value, or from a list with a value for each layer. 0 in a list means
/// that the layer lacks that part; the field then gets the largest value of the list. Throws Error when the list is too
/// short, or when the key is missing and `otherwise` is not given.
void ReadCounts(const GgufConfig& config, const char* key, int64_t LayerSpec::*what, ModelSpec& spec,
                std::optional<int64_t> otherwise = {});

/// Returns, for each layer, true if the list under `key` has a 0 for it. Returns false for all layers when there is no
/// list.
std::vector<bool> LayersWithout(const GgufConfig& config, const char* key, const ModelSpec& spec);

/// Gives `mixer` to the layers that have no key and value heads.
void SetMixerWithoutKeys(const GgufConfig& config, Mixer mixer, ModelSpec& spec);

/// Reads the sizes of layers with a recurrent state and `key_heads` key heads. GGUF files store the rates of decay
/// negated. Throws Error when sizes contradict each other.
Recurrence StateHeadsFromGguf(const GgufConfig& config, int64_t key_heads);

/// Removes the layers that predict further tokens, which are the last blocks of a GGUF file.
void DropFurtherLayers(const GgufConfig& config, ModelSpec& spec);

/// Leaves the file's sliding window only in some layers: those for which the list attention.sliding_window_pattern has
/// true or, without that list, all but every `full_every`-th layer.
void KeepWindows(const GgufConfig& config, ModelSpec& spec, int64_t full_every);

}  // namespace quire::architectures
