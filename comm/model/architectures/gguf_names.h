#pragma once

#include "comm/model/config_reader.h"
#include "comm/model/weight_spec.h"

// GGUF names the weight of a role alike in all families; where one of them differs, its WeightSpec says so.
namespace quire::architectures {

/// In a layer's name, {} stands for the layer's number; the experts of a mixture are one tensor. Null: no GGUF that is
/// read has such a weight.
const char* GgufName(Role role);

/// Whether the file has such a weight: of a layer, in this one.
bool Has(const GgufConfig& config, const char* name, int64_t layer = 0);
inline bool Has(const GgufConfig& config, Role role, int64_t layer = 0) { return Has(config, GgufName(role), layer); }

/// Queries, keys and values that are one tensor.
inline constexpr const char *kGgufQkv = "blk.{}.attn_qkv.weight", *kGgufQkvBias = "blk.{}.attn_qkv.bias";
/// All that projects into a state space, or into queries, keys, values and gates of the gated delta rule.
inline constexpr const char* kGgufStateIn = "blk.{}.ssm_in.weight";

}  // namespace quire::architectures
