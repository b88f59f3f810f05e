#pragma once

#include "comm/model/config_reader.h"
#include "comm/model/weight_spec.h"

// GGUF names of weights. All families use the same name for a role; where a family differs, its WeightSpec has the
// name.
namespace quire::architectures {

/// Returns the GGUF name of a role. In names of layers' weights, {} stands for the layer's number. All experts of a
/// mixture are one tensor. Returns null if no supported GGUF file has this weight.
const char* GgufName(Role role);

/// Returns true when the file has this weight; `layer` is the layer of a layer's weight.
bool Has(const GgufConfig& config, const char* name, int64_t layer = 0);
inline bool Has(const GgufConfig& config, Role role, int64_t layer = 0) { return Has(config, GgufName(role), layer); }

/// The GGUF names of the tensor with queries, keys and values, and of the tensor with their biases.
inline constexpr const char *kGgufQkv = "blk.{}.attn_qkv.weight", *kGgufQkvBias = "blk.{}.attn_qkv.bias";
/// The GGUF name of the tensor of all input projections of a state space, or of the gated delta rule's queries, keys,
/// values and gates.
inline constexpr const char* kGgufStateIn = "blk.{}.ssm_in.weight";

}  // namespace quire::architectures
