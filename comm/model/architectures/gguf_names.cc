#include "comm/model/architectures/gguf_names.h"

#include <algorithm>
#include <string>
#include <utility>

namespace quire::architectures {

namespace {

constexpr const char *kShortConvolutionIn = "blk.{}.shortconv.in_proj.weight", *kStateTaps = "blk.{}.ssm_conv1d.weight",
                     *kStateTapsBias = "blk.{}.ssm_conv1d.bias";

constexpr std::pair<Role, const char*> kGgufNames[] = {
    {Role::kEmbedding, "token_embd.weight"},
    {Role::kPositions, "position_embd.weight"},
    {Role::kEmbeddingNorm, "token_embd_norm.weight"},
    {Role::kEmbeddingNormBias, "token_embd_norm.bias"},
    {Role::kLayerEmbedding, "per_layer_token_embd.weight"},
    {Role::kLayerProjection, "per_layer_model_proj.weight"},
    {Role::kLayerProjectionNorm, "per_layer_proj_norm.weight"},
    {Role::kFinalNorm, "output_norm.weight"},
    {Role::kFinalNormBias, "output_norm.bias"},
    {Role::kHead, "output.weight"},
    {Role::kHeadBias, "output.bias"},
    {Role::kAttentionNorm, "blk.{}.attn_norm.weight"},
    {Role::kAttentionNormBias, "blk.{}.attn_norm.bias"},
    {Role::kQuery, "blk.{}.attn_q.weight"},
    {Role::kKey, "blk.{}.attn_k.weight"},
    {Role::kValue, "blk.{}.attn_v.weight"},
    {Role::kQueryBias, "blk.{}.attn_q.bias"},
    {Role::kKeyBias, "blk.{}.attn_k.bias"},
    {Role::kValueBias, "blk.{}.attn_v.bias"},
    {Role::kQueryNorm, "blk.{}.attn_q_norm.weight"},
    {Role::kKeyNorm, "blk.{}.attn_k_norm.weight"},
    {Role::kAttentionOut, "blk.{}.attn_output.weight"},
    {Role::kAttentionOutBias, "blk.{}.attn_output.bias"},
    {Role::kSinks, "blk.{}.attn_sinks.weight"},
    {Role::kQueryIn, "blk.{}.attn_q_a.weight"},
    {Role::kQueryInNorm, "blk.{}.attn_q_a_norm.weight"},
    {Role::kLatentIn, "blk.{}.attn_kv_a_mqa.weight"},
    {Role::kLatentNorm, "blk.{}.attn_kv_a_norm.weight"},
    {Role::kAttentionAfterNorm, "blk.{}.post_attention_norm.weight"},
    {Role::kMlpNorm, "blk.{}.ffn_norm.weight"},
    {Role::kMlpNormBias, "blk.{}.ffn_norm.bias"},
    {Role::kGate, "blk.{}.ffn_gate.weight"},
    {Role::kUp, "blk.{}.ffn_up.weight"},
    {Role::kUpBias, "blk.{}.ffn_up.bias"},
    {Role::kDown, "blk.{}.ffn_down.weight"},
    {Role::kDownBias, "blk.{}.ffn_down.bias"},
    {Role::kMlpAfterNorm, "blk.{}.post_ffw_norm.weight"},
    {Role::kLayerInputGate, "blk.{}.inp_gate.weight"},
    {Role::kLayerInputOut, "blk.{}.proj.weight"},
    {Role::kLayerInputNorm, "blk.{}.post_norm.weight"},
    {Role::kLayerScale, "blk.{}.layer_output_scale.weight"},
    {Role::kConvInGate, kShortConvolutionIn},
    {Role::kConvOutGate, kShortConvolutionIn},
    {Role::kConvIn, kShortConvolutionIn},
    {Role::kConvTaps, "blk.{}.shortconv.conv.weight"},
    {Role::kConvOut, "blk.{}.shortconv.out_proj.weight"},
    {Role::kStateQuery, kGgufQkv},
    {Role::kStateKey, kGgufQkv},
    {Role::kStateValue, kGgufQkv},
    {Role::kStateGate, "blk.{}.attn_gate.weight"},
    {Role::kStateBeta, "blk.{}.ssm_beta.weight"},
    {Role::kStateDecay, "blk.{}.ssm_alpha.weight"},
    {Role::kStateQueryTaps, kStateTaps},
    {Role::kStateKeyTaps, kStateTaps},
    {Role::kStateValueTaps, kStateTaps},
    {Role::kStateQueryTapsBias, kStateTapsBias},
    {Role::kStateKeyTapsBias, kStateTapsBias},
    {Role::kStateValueTapsBias, kStateTapsBias},
    {Role::kStateRate, "blk.{}.ssm_a"},
    {Role::kStateDecayBias, "blk.{}.ssm_dt.bias"},
    {Role::kStateSkip, "blk.{}.ssm_d"},
    {Role::kStateNorm, "blk.{}.ssm_norm.weight"},
    {Role::kStateOut, "blk.{}.ssm_out.weight"},
    {Role::kRouter, "blk.{}.ffn_gate_inp.weight"},
    {Role::kRouterBias, "blk.{}.ffn_gate_inp.bias"},
    {Role::kRouterCorrection, "blk.{}.exp_probs_b.bias"},
    {Role::kExpertGate, "blk.{}.ffn_gate_exps.weight"},
    {Role::kExpertUp, "blk.{}.ffn_up_exps.weight"},
    {Role::kExpertDown, "blk.{}.ffn_down_exps.weight"},
    {Role::kExpertGateBias, "blk.{}.ffn_gate_exps.bias"},
    {Role::kExpertUpBias, "blk.{}.ffn_up_exps.bias"},
    {Role::kExpertDownBias, "blk.{}.ffn_down_exps.bias"},
    {Role::kSharedGate, "blk.{}.ffn_gate_shexp.weight"},
    {Role::kSharedUp, "blk.{}.ffn_up_shexp.weight"},
    {Role::kSharedDown, "blk.{}.ffn_down_shexp.weight"},
    {Role::kSharedScale, "blk.{}.ffn_gate_inp_shexp.weight"},
    {Role::kExpertScale, "blk.{}.ffn_down_exps.scale"},
    {Role::kRouterNorm, "blk.{}.ffn_gate_inp.scale"},
    {Role::kExpertsNorm, "blk.{}.pre_ffw_norm_2.weight"},
    {Role::kExpertsAfterNorm, "blk.{}.post_ffw_norm_2.weight"},
    {Role::kSharedAfterNorm, "blk.{}.post_ffw_norm_1.weight"},
};

}  // namespace

const char* GgufName(Role role) {
  const auto* name = std::ranges::find(kGgufNames, role, &std::pair<Role, const char*>::first);
  return name == std::end(kGgufNames) ? nullptr : name->second;
}

bool Has(const GgufConfig& config, const char* name, int64_t layer) {
  std::string in_layer = name;
  if (const size_t place = in_layer.find("{}"); place != std::string::npos)
    in_layer.replace(place, 2, std::to_string(layer));
  return config.file().tensors.contains(in_layer);
}

}  // namespace quire::architectures
