#include "comm/model/formats/kv_scales.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "comm/base/error.h"
#include "comm/model/formats/scaled_matrix.h"

namespace quire {

namespace {

/// Returns the number of the layer in the name of a tensor of attention; nullopt for other names.
std::optional<int64_t> LayerOf(std::string_view name) {
  constexpr std::string_view kLayers = "layers.", kAttention = ".self_attn.";
  const size_t at = name.find(kLayers), attention = name.find(kAttention);
  if (at == name.npos || attention == name.npos) return std::nullopt;
  int64_t layer = -1;
  const std::string_view number = name.substr(at + kLayers.size(), attention - at - kLayers.size());
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), layer);
  return error == std::errc() && end == number.data() + number.size() ? std::optional(layer) : std::nullopt;
}

/// Returns the number in a tensor of one number; nullopt for other tensors.
std::optional<float> NumberOf(const Tensor& tensor) {
  if (!IsFloat(tensor.type) || static_cast<int64_t>(tensor.data.size()) != ByteSize(tensor.type)) return std::nullopt;
  return ScaleGrid{tensor.type, tensor.data.data()}.At(0, 0);
}

}  // namespace

std::vector<KvScales> TakeKvScales(TensorMap& tensors, int64_t num_layers, const std::string& path) {
  std::vector<KvScales> scales(static_cast<size_t>(num_layers));
  for (auto at = tensors.begin(); at != tensors.end();) {
    const std::string& name = at->first;
    const bool both = name.ends_with(".kv_scale");
    const bool of_keys = both || name.ends_with(".k_scale"), of_values = both || name.ends_with(".v_scale");
    const std::optional<int64_t> layer = of_keys || of_values ? LayerOf(name) : std::nullopt;
    if (!layer) {
      ++at;
      continue;
    }
    const std::optional<float> scale = NumberOf(at->second);
    if (scale && !(*scale > 0 && std::isfinite(*scale)))
      Fail("{}: tensor {} is {}, and must be above zero", path, name, *scale);
    if (scale && *layer < num_layers) {
      KvScales& of_layer = scales[static_cast<size_t>(*layer)];
      if (of_keys) of_layer.key = *scale;
      if (of_values) of_layer.value = *scale;
    }
    at = tensors.erase(at);
  }
  return scales;
}

}  // namespace quire
