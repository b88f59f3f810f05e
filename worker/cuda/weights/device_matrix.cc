#include "worker/cuda/weights/device_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "comm/model/architecture.h"
#include "comm/model/formats/scaled_matrix.h"
#include "kernels/cuda/products/quantized_matrix.h"
#include "kernels/packed_weight.h"
#include "worker/cuda/weights/cuda_weight_layout.h"
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

  /// Returns the form that the matrices of all these parts can have on the device (for experts: of all the rank's
  /// experts); nullopt if there is none. `cols` are the columns of these parts.
  std::optional<NumberType> Find(int64_t layer, std::span<const PlannedPart> parts, const Cut& cols) const {
    const auto [begin, end] = cols.range;
    const bool whole = begin % kernels::kQuantBlock == 0 && end % kernels::kQuantBlock == 0 &&
                       cols.size() == SizeOnDevice(cols) && cols.size() > 0;
    std::optional<NumberType> form;
    for (const auto& [role, rows, rounding] : parts) {
      if (!whole || files_.weight(role).transposed) return std::nullopt;
      const Range experts = IsOfExpert(role) ? shard_.experts : Range{0, 1};
      for (int64_t expert = experts.begin; expert < experts.end; ++expert) {
        const std::optional<NumberType> found =
            FormOnDevice(files_.Get(role, layer, expert), begin, quantization_, files_.path().c_str());
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

std::vector<LayerForms> FormsOnDevice(const ModelFiles& files, const RankShard& shard, NumberType dtype,
                                      Quantization quantization) {
  const ModelSpec& spec = files.spec();
  std::vector<LayerForms> forms(static_cast<size_t>(spec.num_layers()));
  if (dtype == NumberType::kF32) return forms;
  const FormFinder finder(files, shard, quantization);
  for (int64_t i = 0; i < spec.num_layers(); ++i) {
    LayerForms& to = forms[static_cast<size_t>(i)];
    for (const PlannedWeight& planned : PlanLayer(spec, shard, i)) {
      if (!MayStayQuantized(planned.place)) continue;
      const std::span<const PlannedPart> parts = planned.parts;
      // Neighbouring rows of kQkv may have different forms (QkvPart). The rows of other places are one matrix.
      const size_t at_once = planned.place == WeightPlace::kQkv ? 1 : parts.size();
      for (size_t first = 0; first < parts.size(); first += at_once) {
        const auto alike = parts.subspan(first, at_once);
        const std::optional<NumberType> form = finder.Find(i, alike, planned.cols);
        for (const PlannedPart& part : alike) to.Set(part.role, form);
      }
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
