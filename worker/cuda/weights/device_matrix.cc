#include "worker/cuda/weights/device_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>

#include "comm/model/architecture.h"
#include "comm/model/formats/scaled_matrix.h"
#include "kernels/cuda/products/quantized_matrix.h"
#include "kernels/packed_weight.h"
#include "worker/cuda/weights/cuda_weights.h"
#include "worker/model/stored_rows.h"
#include "worker/model/weight_slice.h"

namespace quire {

namespace {

/// Returns the form on the device of a file's FP8 matrix, for columns from `first` on. Returns nullopt if a scale group
/// of the device (kFp8Group columns, counted from `first` on) could take scales of several groups of the file.
std::optional<NumberType> FormOfFp8(const ScaledMatrix& matrix, int64_t first) {
  if (matrix.groups() == 1) return NumberType::kFp8E4M3;
  const bool fits = matrix.InOrder() && matrix.group % kernels::kFp8Group == 0 && first % kernels::kFp8Group == 0;
  return fits ? std::optional(NumberType::kFp8Groups) : std::nullopt;
}

/// Returns the form on the device of a matrix for the rank's columns from `first` on; nullopt: the device expands the
/// matrix.
std::optional<NumberType> FormOnDevice(const Tensor& tensor, int64_t first, Quantization quantization,
                                       const char* what) {
  const bool keeps = quantization == Quantization::kNone || quantization == Quantization::kFp8;
  if (keeps && tensor.scaled != nullptr && tensor.scaled->fp8 != nullptr) {
    tensor.scaled->Check(what);
    return FormOfFp8(*tensor.scaled, first);
  }
  const NumberType packed = FormOf(tensor, what).type;
  if (LayoutOf(packed).block_numbers == 1) return TypeOfPlain(quantization);
  if (packed != NumberType::kQ8_0) return NumberType::kQ4_1;
  if (tensor.scaled != nullptr) return packed;
  switch (tensor.type) {
    case NumberType::kMxFp4:
    case NumberType::kMxFp4Pairs:
      return NumberType::kMxFp4;
    case NumberType::kQ8_0:
    case NumberType::kQ5_0:
    case NumberType::kIQ4_NL:
    case NumberType::kIQ4_XS:
      return packed;
    case NumberType::kQ5_1:
    case NumberType::kQ5_K:
      return keeps ? NumberType::kQ5_K : packed;
    case NumberType::kQ6_K:
      return keeps ? NumberType::kQ6_K : packed;
    default:  // formats that must be rounded again
      return quantization == Quantization::kNone ? std::nullopt : keeps ? NumberType::kFp8E4M3 : std::optional(packed);
  }
}

/// Chooses the forms in which the device holds one rank's matrices.
class FormFinder {
 public:
  FormFinder(const ModelFiles& files, const RankShard& shard, Quantization quantization)
      : files_(files), shard_(shard), quantization_(quantization) {}

  /// Returns the form that the matrices of all these roles can have on the device (for experts: of all these experts);
  /// nullopt if there is none. The rows of these matrices lie one after another with `width` numbers each.
  std::optional<NumberType> Find(int64_t layer, std::initializer_list<Role> roles, int64_t width,
                                 const Range& experts = {0, 1}) const {
    std::optional<NumberType> form;
    for (const Role role : roles) {
      if (!files_.Has(role, layer)) continue;
      const WeightSlice slice = SliceOf(files_, shard_, role, layer);
      const bool whole = slice.pieces.empty() && slice.cols.begin % kernels::kQuantBlock == 0 &&
                         slice.cols.end % kernels::kQuantBlock == 0 && slice.cols.size() == width && width > 0;
      if (!whole || files_.weight(role).transposed) return std::nullopt;
      for (int64_t expert = experts.begin; expert < experts.end; ++expert) {
        const std::optional<NumberType> found =
            FormOnDevice(files_.Get(role, layer, expert), slice.cols.begin, quantization_, files_.path().c_str());
        if (!found || (form && form != found)) return std::nullopt;
        form = found;
      }
    }
    return form;
  }

 private:
  const ModelFiles& files_;
  const RankShard& shard_;
  Quantization quantization_;
};

}  // namespace

std::optional<NumberType> LayerForms::Of(Role role) const {
  switch (role) {
    case Role::kQuery:
    case Role::kKey:
    case Role::kValue:
    case Role::kAttentionGate:
      return qkv[static_cast<size_t>(std::ranges::find(kQkvRoles, role) - kQkvRoles)];
    case Role::kAttentionOut:
      return attention_out;
    case Role::kQueryIn:
      return query_in;
    case Role::kLatentIn:
      return latent_in;
    case Role::kGate:
    case Role::kUp:
      return mlp_in;
    case Role::kDown:
      return down;
    case Role::kExpertGate:
    case Role::kExpertUp:
      return experts_in;
    case Role::kExpertDown:
      return experts_down;
    case Role::kSharedGate:
    case Role::kSharedUp:
      return shared_in;
    case Role::kSharedDown:
      return shared_down;
    default:
      return std::nullopt;
  }
}

std::vector<LayerForms> FormsOnDevice(const ModelFiles& files, const RankShard& shard, NumberType dtype,
                                      Quantization quantization) {
  const ModelSpec& spec = files.spec();
  std::vector<LayerForms> forms(static_cast<size_t>(spec.num_layers()));
  if (dtype == NumberType::kF32) return forms;
  const FormFinder finder(files, shard, quantization);
  for (int64_t i = 0; i < spec.num_layers(); ++i) {
    const LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
    LayerForms& to = forms[static_cast<size_t>(i)];
    if (spec.latent.rank > 0) {
      const int64_t rank = spec.latent.query_rank;
      to.query_in = finder.Find(i, {Role::kQueryIn}, spec.hidden_size);
      to.latent_in = finder.Find(i, {Role::kLatentIn}, spec.hidden_size);
      to.qkv[0] = finder.Find(i, {Role::kQuery}, rank > 0 ? rank : spec.hidden_size);
      to.attention_out = finder.Find(i, {Role::kAttentionOut}, shard.heads.size() * spec.latent.value_dim);
    } else if (layer.has_attention()) {
      for (size_t at = 0; at < to.qkv.size(); ++at) to.qkv[at] = finder.Find(i, {kQkvRoles[at]}, spec.hidden_size);
      to.attention_out = finder.Find(i, {Role::kAttentionOut}, shard.heads.size() * layer.head_dim);
    }
    if (layer.mixture) {
      to.experts_in = finder.Find(i, {Role::kExpertGate, Role::kExpertUp}, spec.hidden_size, shard.experts);
      to.experts_down = finder.Find(i, {Role::kExpertDown}, CudaWeights::ExpertWidth(shard), shard.experts);
      to.shared_in = finder.Find(i, {Role::kSharedGate, Role::kSharedUp}, spec.hidden_size);
      to.shared_down = finder.Find(i, {Role::kSharedDown}, CudaWeights::SharedWidth(shard));
    } else if (const int64_t width = CudaWeights::MlpWidth(shard, i); layer.mlp && width > 0) {
      to.mlp_in = finder.Find(i, {Role::kGate, Role::kUp}, spec.hidden_size);
      to.down = finder.Find(i, {Role::kDown}, width);
    }
  }
  return forms;
}

std::vector<std::string> NotesOnExpanded(const ModelFiles& files, const RankShard& shard,
                                         const std::vector<LayerForms>& forms) {
  std::map<std::string, int64_t> expanded;
  for (const WeightSpec& weight : WeightsOf(files.spec())) {
    if (!weight.is_matrix() || !IsOfLayer(weight.role)) continue;
    for (size_t layer = 0; layer < forms.size(); ++layer) {
      if (!files.Has(weight.role, static_cast<int64_t>(layer))) continue;
      const Tensor& tensor = files.Get(weight.role, static_cast<int64_t>(layer));  // expert 0 stands for all experts
      const bool quantized = tensor.scaled != nullptr || LayoutOf(tensor.type).block_numbers > 1;
      if (!quantized || forms[layer].Of(weight.role)) continue;
      expanded[LayoutOf(tensor.type).name] += IsOfExpert(weight.role) ? shard.experts.size() : 1;
    }
  }
  std::vector<std::string> notes;
  for (const auto& [type, count] : expanded)
    notes.push_back(
        fmt::format("{} matrices of {} are expanded on the device; --quantization int8 keeps those of "
                    "attention and MLPs in 8 bits, with rounding",
                    count, type));
  return notes;
}

}  // namespace quire
