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

/// A weight in device memory: of the model's type, or one that stays quantised (kernels::QuantizedMatrix).
struct DeviceMatrix {
  void* data = nullptr;
  std::optional<NumberType> quantized = {};
};

/// What lies in one matrix for one product of a layer's, rows of one after rows of the other.
inline constexpr Role kQkvRoles[] = {Role::kQuery, Role::kKey, Role::kValue, Role::kAttentionGate};

/// Which of a layer's matrices stay quantised on the device, and as what. Experts are all alike.
struct LayerForms {
  std::array<std::optional<NumberType>, std::size(kQkvRoles)> qkv;  // by kQkvRoles
  std::optional<NumberType> attention_out, mlp_in, down;
  std::optional<NumberType> experts_in, experts_down, shared_in, shared_down;

  std::optional<NumberType> Of(Role role) const;
};

/// Of each layer; none has any where the dtype is fp32. Matrices that a file has in blocks of 32 or more columns keep
/// their integers: Q4_0, Q4_1, Q4_K, and integers of safetensors (FormOf) as q4_1; Q8_0, Q5_0, IQ4_NL and IQ4_XS as
/// q8_0; Q5_1, Q5_K and Q6_K in six bits; MXFP4 as it is; FP8 as it is where factors are of rows or of groups of a
/// multiple of 128 columns. With `quantization` fp8 plain ones and the other formats of files are rounded to FP8 with a
/// factor for each row; with int8 or int4 plain ones, and such as are in 16 bits when they are read (FormOf), are
/// rounded to q8_0 or q4_1, and the other formats of files, those of six bits included, to q8_0, as on the CPU. Gates
/// and ups must be of one form; all else is expanded, as are matrices of whose blocks other ranks have columns, too.
std::vector<LayerForms> FormsOnDevice(const ModelFiles& files, const RankShard& shard, NumberType dtype,
                                      Quantization quantization);

/// A line for each type that the file has matrices of layers quantised as and the device does not: how many there are.
std::vector<std::string> NotesOnExpanded(const ModelFiles& files, const RankShard& shard,
                                         const std::vector<LayerForms>& forms);

}  // namespace quire
