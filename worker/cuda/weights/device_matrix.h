#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "comm/model/model_files.h"
#include "comm/topology/compute_settings.h"
#include "worker/model/weight_plan.h"

namespace quire {

/// A weight in device memory, either in the model's type or quantised (kernels::QuantizedMatrix).
struct DeviceMatrix {
  void* data = nullptr;
  std::optional<NumberType> quantized = {};
};

/// Returns how many numbers a rank's part of an axis has on the device. MLP columns are rounded up so that rows are
/// multiples of 16 bytes and gates alternate with ups.
inline int64_t SizeOnDevice(const Cut& cut) {
  const bool is_padded = cut.axis == Axis::kMlp || cut.axis == Axis::kExpertMlp || cut.axis == Axis::kSharedMlp;
  return is_padded ? (cut.size() + 15) / 16 * 16 : cut.size();
}
/// Returns the number of rows of a router's matrix: one for each expert and one for the gate of the shared expert,
/// rounded up to a multiple of 8 (a vector of logits).
constexpr int64_t CudaRouterWidth(int64_t experts) { return (experts + 8) / 8 * 8; }

/// The types of those matrices of a layer that stay quantised on the device. All experts have the same type.
class LayerForms {
 public:
  /// Returns the type of the role's matrix; nullopt: the matrix is expanded.
  std::optional<NumberType> Of(Role role) const { return by_role_[static_cast<size_t>(role)]; }
  void Set(Role role, std::optional<NumberType> form) { by_role_[static_cast<size_t>(role)] = form; }

 private:
  std::array<std::optional<NumberType>, kNumRoles> by_role_;
};

/// Chooses the forms of each layer's matrices. If the dtype is fp32, all matrices are expanded. Without `quantization`,
/// matrices in blocks of at least 32 columns keep their integers: Q4_0, Q4_1, Q4_K and 4-bit integers of safetensors
/// (FormOf) as q4_1; Q8_0, Q5_0, IQ4_NL and IQ4_XS as q8_0; Q5_1, Q5_K and Q6_K in six bits; MXFP4 unchanged. FP8 stays
/// if its factors belong to rows or to groups of a multiple of 128 columns.
///
/// With fp8, plain matrices and file formats that are not named above are rounded to FP8 with one factor per row. With
/// int8 or int4, plain matrices and those that FormOf expands to 16 bits are rounded to q8_0 or q4_1; formats in six
/// bits and formats that are not named above are rounded to q8_0, as on the CPU.
///
/// Gates and ups must have the same form. The matrices of other places than those of attention, MLPs and experts are
/// expanded, and so is a matrix that the ranks split inside a block of columns.
std::vector<LayerForms> FormsOnDevice(const ModelFiles& files, const RankShard& shard, NumberType dtype,
                                      Quantization quantization);

/// Returns, for each quantised type of the file, a sentence with the number of layer matrices that the device expands.
std::vector<std::string> NotesOnExpanded(const ModelFiles& files, const RankShard& shard,
                                         const std::vector<LayerForms>& forms);

}  // namespace quire
