// Code World Model is Llama with a sliding window in three of four layers.
#include "comm/model/architectures/all.h"
#include "comm/model/architectures/llama.h"

namespace quire::architectures {

namespace {

constexpr int64_t kCwmFullEvery = 4;

/// Reads config.json. Throws Error when it has neither rope_parameters nor rope_scaling, because HF then scales the
/// rotation by default.
ModelSpec CwmFromHf(const HfConfig& config) {
  if (!config.Has("rope_scaling")) config.At("rope_parameters");
  ModelSpec spec = LlamaFromHf(config, {.theta = 1000000});
  spec.norm_epsilon = config.Real("rms_norm_eps", 1e-5);
  spec.SetAll(&LayerSpec::num_kv_heads, config.Count("num_key_value_heads", 8));
  spec.SetAll(&LayerSpec::head_dim, config.Count("head_dim", 128));
  ReadKinds(config, spec, config.Count("sliding_window", 8192),
            [](int64_t layer) { return layer % kCwmFullEvery != 0; });
  return spec;
}

}  // namespace

constexpr Architecture kCwm = {"cwm", nullptr, CwmFromHf, nullptr, LlamaWeights};

}  // namespace quire::architectures
