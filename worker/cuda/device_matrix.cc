#include "worker/cuda/device_matrix.h"

#include <algorithm>
#include <initializer_list>

#include "kernels/packed_weight.h"
#include "worker/cuda/cuda_weights.h"
#include "worker/model/stored_rows.h"
#include "worker/model/weight_slice.h"

namespace quire {

namespace {

std::optional<NumberType> FormOnDevice(const Tensor& tensor, const char* what) {
  if (tensor.scaled == nullptr) {
    switch (tensor.type) {
      case NumberType::kQ4_0:
      case NumberType::kQ4_1:
      case NumberType::kQ4_K:
        return NumberType::kQ4_1;
      case NumberType::kQ8_0:
      case NumberType::kQ5_0:
      case NumberType::kIQ4_NL:
      case NumberType::kIQ4_XS:
      case NumberType::kMxFp4:
      case NumberType::kMxFp4Pairs:
        return NumberType::kQ8_0;
      default:
        return std::nullopt;
    }
  }
  const NumberType form = FormOf(tensor, what).type;
  if (form == NumberType::kQ4_0 || form == NumberType::kQ4_1) return NumberType::kQ4_1;
  if (form == NumberType::kQ8_0) return form;
  return std::nullopt;
}

/// Of matrices that lie together, rows of one after rows of another, in rows of `width` numbers.
std::optional<NumberType> FormOfAll(const ModelFiles& files, const RankShard& shard, int64_t layer,
                                    std::initializer_list<Role> roles, int64_t width) {
  std::optional<NumberType> form;
  for (const Role role : roles) {
    if (!files.Has(role, layer)) continue;
    const WeightSlice slice = SliceOf(files, shard, role, layer);
    const bool whole = slice.pieces.empty() && slice.cols.begin % kernels::kQuantBlock == 0 &&
                       slice.cols.end % kernels::kQuantBlock == 0 && slice.cols.size() == width && width > 0;
    if (!whole || files.weight(role).transposed) return std::nullopt;
    const std::optional<NumberType> of_role = FormOnDevice(files.Get(role, layer), files.path().c_str());
    if (!of_role || (form && form != of_role)) return std::nullopt;
    form = of_role;
  }
  return form;
}

}  // namespace

std::vector<LayerForms> FormsOnDevice(const ModelFiles& files, const RankShard& shard, NumberType dtype) {
  const ModelSpec& spec = files.spec();
  std::vector<LayerForms> forms(static_cast<size_t>(spec.num_layers()));
  if (dtype == NumberType::kF32) return forms;
  for (int64_t i = 0; i < spec.num_layers(); ++i) {
    const LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
    LayerForms& to = forms[static_cast<size_t>(i)];
    const auto form = [&](std::initializer_list<Role> roles, int64_t width) {
      return FormOfAll(files, shard, i, roles, width);
    };
    if (layer.has_attention()) {
      to.qkv = form({Role::kQuery, Role::kKey, Role::kValue, Role::kAttentionGate}, spec.hidden_size);
      to.attention_out = form({Role::kAttentionOut}, shard.heads.size() * layer.head_dim);
    }
    if (const int64_t width = CudaWeights::MlpWidth(shard, i); layer.mlp && !layer.mixture && width > 0) {
      to.mlp_in = form({Role::kGate, Role::kUp}, spec.hidden_size);
      to.down = form({Role::kDown}, width);
    }
  }
  return forms;
}

}  // namespace quire
