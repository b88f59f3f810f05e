#pragma once

#include <optional>
#include <vector>

#include "comm/model/model_files.h"
#include "worker/model/shard.h"

namespace quire {

/// A weight in device memory: of the model's type, or one that stays quantised (kernels::QuantizedMatrix).
struct DeviceMatrix {
  void* data = nullptr;
  std::optional<NumberType> quantized = {};
};

/// Which of a layer's matrices stay quantised on the device, and as what.
struct LayerForms {
  std::optional<NumberType> qkv, attention_out, mlp_in, down;
};

/// Of each layer; none has any where the dtype is fp32. Matrices of which a file has 4 bits a number, or 8, in blocks
/// of 32 or more columns keep them: Q4_0, Q4_1, Q4_K, and integers of safetensors (FormOf) as q4_1; Q8_0, Q5_0 and
/// MXFP4, which lose nothing, as q8_0. Those that lie together must be of the same width; all else is expanded, as are
/// those of whose blocks other ranks have columns, too.
std::vector<LayerForms> FormsOnDevice(const ModelFiles& files, const RankShard& shard, NumberType dtype);

}  // namespace quire
