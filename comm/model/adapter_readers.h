#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/model/adapter_config.h"
#include "comm/model/adapter_files.h"
#include "comm/model/formats/gguf.h"

namespace quire {

/// Reads the tensors of a PEFT adapter from the file `file`. `layout` is the base model's description with the orders
/// of HF's files. Throws Error, which begins with `file` and names the tensor, for a tensor that has no use, has
/// another shape, or is missing.
AdapterContents ReadPeftTensors(const ModelFiles& base, const ModelSpec& layout, const AdapterConfig& config,
                                const std::string& file, const TensorMap& tensors);

/// Reads an adapter in llama.cpp's format. `layout` is the base model's description with the orders of GGUF files.
/// Throws Error as ReadPeftTensors does, and for metadata of other kinds of adapters.
AdapterContents ReadGgufAdapter(const ModelFiles& base, const ModelSpec& layout, const GgufFile& file);

// Checks that both readers make. The functions throw Error, which begins with `file` and names the tensor.
[[noreturn]] void RefuseTensor(const std::string& file, const std::string& tensor, const std::string& reason);
void CheckTensorShape(const std::string& file, const std::string& name, const Tensor& tensor,
                      const std::vector<int64_t>& wanted);
/// Returns the factor of a LoRA matrix as a 32-bit number. Throws Error when 32 bits cannot hold it. `alpha` is the
/// name, in the file, of the setting from which the factor follows.
float FactorOf(const std::string& file, const std::string& tensor, double factor, std::string_view alpha);

}  // namespace quire
