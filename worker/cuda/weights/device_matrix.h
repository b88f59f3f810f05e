#pragma once

#include <array>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "comm/model/model_files.h"
#include "comm/topology/compute_settings.h"
#include "worker/model/shard.h"

namespace quire {

/// A weight in device memory, either in the model's type or quantised (kernels::QuantizedMatrix).
struct DeviceMatrix {
  void* data = nullptr;
  std::optional<NumberType> quantized = {};
};

/// The roles whose rows lie one after another in the matrix of a layer's qkv product.
inline constexpr Role kQkvRoles[] = {Role::kQuery, Role::kKey, Role::kValue, Role::kAttentionGate};

/// The types of those matrices of a layer that stay quantised on the device; nullopt: the matrix is expanded. All
/// experts have the same type.
struct LayerForms {
  std::array<std::optional<NumberType>, std::size(kQkvRoles)> qkv;  // by role, as in kQkvRoles
  std::optional<NumberType> attention_out, mlp_in, down;
  std::optional<NumberType> query_in, latent_in;  // only with latent attention, whose query matrix is qkv[0]
  std::optional<NumberType> experts_in, experts_down, shared_in, shared_down;

  std::optional<NumberType> Of(Role role) const;
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
/// Gates and ups must have the same form. All other matrices are expanded, and so is a matrix that the ranks split
/// inside a block of columns.
std::vector<LayerForms> FormsOnDevice(const ModelFiles& files, const RankShard& shard, NumberType dtype,
                                      Quantization quantization);

/// Returns, for each quantised type of the file, a sentence with the number of layer matrices that the device expands.
std::vector<std::string> NotesOnExpanded(const ModelFiles& files, const RankShard& shard,
                                         const std::vector<LayerForms>& forms);

}  // namespace quire
