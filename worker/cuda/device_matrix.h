#pragma once

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

/// Which of a layer's matrices stay quantised on the device, and as what. Experts are all alike.
struct LayerForms {
  std::optional<NumberType> qkv, attention_out, mlp_in, down;
  std::optional<NumberType> experts_in, experts_down, shared_in, shared_down;
};

/// Of each layer; none has any where the dtype is fp32. Matrices of which a file has 4 bits a number, or 8, in blocks
/// of 32 or more columns keep them: Q4_0, Q4_1, Q4_K, and integers of safetensors (FormOf) as q4_1; Q8_0, Q5_0, IQ4_NL
/// and IQ4_XS, which lose nothing, as q8_0; MXFP4 as it is. With `quantization` int8 or int4 plain ones, and such as
/// are in 16 bits when they are read (FormOf), are rounded to q8_0 or q4_1, and the other formats of files to q8_0, as
/// on the CPU. Those that lie together must be of the same width; all else is expanded, as are those of whose blocks
/// other ranks have columns, too.
std::vector<LayerForms> FormsOnDevice(const ModelFiles& files, const RankShard& shard, NumberType dtype,
                                      Quantization quantization);

/// A line for each type that the file has matrices of layers quantised as and the device does not: how many there are.
std::vector<std::string> NotesOnExpanded(const ModelFiles& files, const RankShard& shard,
                                         const std::vector<LayerForms>& forms);

}  // namespace quire
