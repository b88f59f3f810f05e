#!/usr/bin/env python3
"""Makes random models whose MLPs are mixtures of experts (models/NAME, safetensors in float16), and the continuations
of their prompts by HF transformers in float32 (tiny_NAME.json). Uses functions of make_golden.py. Needs: pip install
torch transformers accelerate safetensors

  make_mixture_golden.py [NAME...]

mixtral.stacked and mimov2.stacked have the same numbers as mixtral and mimov2, with all experts of a layer in one tensor.

make_golden.py's condition on prompts holds. In addition, the scores of the last chosen expert and of the first one that
is not chosen must differ by more than ROUTER_MARGIN in every layer at every token. In a closer case rounding decides
which expert computes."""
import random
import sys

import torch
import transformers
from transformers import AutoModelForCausalLM

from make_golden import HERE, LENGTHS, continue_greedily, check_without_cache, MARGIN, scatter_vectors, write

ROUTER_MARGIN = 1e-5

# The numbers of experts, heads and columns are unusual on purpose.
TINY = {
    "mixtral": dict(kind="Mixtral", hidden_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                    intermediate_size=37, vocab_size=131, num_local_experts=5, num_experts_per_tok=2),
    "qwen3moe": dict(kind="Qwen3Moe", hidden_size=48, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=3, head_dim=20,
                     intermediate_size=64, moe_intermediate_size=20, vocab_size=139, num_experts=7, num_experts_per_tok=3,
                     norm_topk_prob=True, tie_word_embeddings=True),
    # Only layer 1 has experts: the step selects layers 1 and 3, but mlp_only_layers lists layer 3.
    "qwen2moe": dict(kind="Qwen2Moe", hidden_size=48, num_hidden_layers=4, num_attention_heads=6, num_key_value_heads=2,
                     intermediate_size=50, moe_intermediate_size=21, shared_expert_intermediate_size=32, vocab_size=149,
                     num_experts=6, num_experts_per_tok=4, decoder_sparse_step=2, mlp_only_layers=[3], use_sliding_window=True,
                     sliding_window=24, max_window_layers=3),
    "qwen2moe_all": dict(kind="Qwen2Moe", hidden_size=40, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=1,
                         intermediate_size=50, moe_intermediate_size=24, shared_expert_intermediate_size=36, vocab_size=151,
                         num_experts=6, num_experts_per_tok=2),
    "olmoe": dict(kind="Olmoe", hidden_size=48, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=3,
                  intermediate_size=28, vocab_size=133, num_experts=8, num_experts_per_tok=3),
    "glm4moe": dict(kind="Glm4Moe", hidden_size=40, num_hidden_layers=3, num_attention_heads=5, num_key_value_heads=1, head_dim=16,
                    intermediate_size=56, moe_intermediate_size=20, vocab_size=137, n_routed_experts=8, num_experts_per_tok=3,
                    n_shared_experts=2, n_group=4, topk_group=2, first_k_dense_replace=1, routed_scaling_factor=1.5,
                    attention_bias=True, use_qk_norm=True),
    "granitemoe": dict(kind="GraniteMoe", hidden_size=48, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
                       intermediate_size=28, vocab_size=141, num_local_experts=6, num_experts_per_tok=3, embedding_multiplier=6.0,
                       attention_multiplier=0.21, residual_multiplier=0.4, logits_scaling=1.5, tie_word_embeddings=True),
    # All texts are shorter than original_max_position_embeddings: the short factors apply. The router's jitter tolerance is so
    # wide that the softmax of a chosen expert includes other experts.
    "phimoe": dict(kind="Phimoe", hidden_size=40, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=1,
                   intermediate_size=24, vocab_size=133, num_local_experts=6, router_jitter_noise=0.3, attention_bias=True,
                   lm_head_bias=True, sliding_window=24, max_position_embeddings=16384,
                   rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=4096,
                                        short_mscale=1.2, long_mscale=1.2, short_factor=[1.0, 1.1, 1.5, 2.5],
                                        long_factor=[1.0, 2.0, 4.0, 8.0])),
    "dots1": dict(kind="Dots1", hidden_size=40, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=12,
                  intermediate_size=56, moe_intermediate_size=20, vocab_size=139, n_routed_experts=6, num_experts_per_tok=2,
                  n_shared_experts=2, n_group=3, topk_group=2, first_k_dense_replace=1, routed_scaling_factor=1.5,
                  norm_topk_prob=True, sliding_window=None, max_window_layers=2),
    "minimaxm2": dict(kind="MiniMaxM2", hidden_size=48, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
                      head_dim=12, intermediate_size=28, vocab_size=143, num_local_experts=6, num_experts_per_tok=3, rotary_dim=6),
    "erniemoe": dict(kind="Ernie4_5_Moe", hidden_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                     intermediate_size=56, moe_intermediate_size=20, vocab_size=147, moe_num_experts=6, moe_k=2,
                     moe_num_shared_experts=2, tie_word_embeddings=True),
    # The structure of DeepSeek-V2 Lite: queries come from the hidden state, and the router is a softmax without groups.
    "deepseekv2": dict(kind="DeepseekV2", hidden_size=40, num_hidden_layers=3, num_attention_heads=5, num_key_value_heads=5,
                       intermediate_size=56, moe_intermediate_size=20, vocab_size=137, n_routed_experts=8, num_experts_per_tok=3,
                       n_shared_experts=2, first_k_dense_replace=1, routed_scaling_factor=1.5, q_lora_rank=None, kv_lora_rank=20,
                       qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10),
    "deepseekv3": dict(kind="DeepseekV3", hidden_size=48, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=6,
                       intermediate_size=56, moe_intermediate_size=20, vocab_size=139, n_routed_experts=8, num_experts_per_tok=3,
                       n_shared_experts=1, n_group=4, topk_group=2, first_k_dense_replace=1, routed_scaling_factor=1.5,
                       q_lora_rank=28, kv_lora_rank=24, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=18,
                       rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, mscale=0.8, mscale_all_dim=0.8,
                                            original_max_position_embeddings=64)),
    "glm4moelite": dict(kind="Glm4MoeLite", hidden_size=40, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4,
                        intermediate_size=56, moe_intermediate_size=20, vocab_size=141, n_routed_experts=6, num_experts_per_tok=2,
                        n_shared_experts=1, routed_scaling_factor=1.5, q_lora_rank=24, kv_lora_rank=32, qk_nope_head_dim=32,
                        qk_rope_head_dim=16, v_head_dim=24, rms_norm_eps=1e-5),
    # The second and fourth layer have neither a sliding window nor rotary embeddings.
    "afmoe": dict(kind="Afmoe", hidden_size=40, num_hidden_layers=4, num_attention_heads=5, num_key_value_heads=1, head_dim=16,
                  intermediate_size=56, moe_intermediate_size=20, vocab_size=143, num_experts=6, num_experts_per_tok=2,
                  num_shared_experts=2, num_dense_layers=1, route_scale=1.7, global_attn_every_n_layers=2, sliding_window=20,
                  mup_enabled=True),
    "exaonemoe": dict(kind="ExaoneMoe", hidden_size=40, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=12,
                      intermediate_size=56, moe_intermediate_size=20, vocab_size=145, num_experts=6, num_experts_per_tok=2,
                      n_group=3, topk_group=2, routed_scaling_factor=1.5, sliding_window=20, sliding_window_pattern=2),
    "hunyuanmoe": dict(kind="HunYuanMoEV1", hidden_size=48, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=3,
                       head_dim=12, intermediate_size=28, vocab_size=153, num_experts=6, moe_topk=[3, 3], tie_word_embeddings=True,
                       rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=1.0, alpha=50.0)),
    "hunyuan3": dict(kind="HYV3", hidden_size=40, num_hidden_layers=3, num_attention_heads=5, num_key_value_heads=1, head_dim=16,
                     intermediate_size=56, moe_intermediate_size=20, vocab_size=147, num_experts=7, num_experts_per_tok=3,
                     num_shared_experts=2, router_scaling_factor=1.7, mlp_layer_types=["dense", "sparse", "sparse"]),
    "solaropen": dict(kind="SolarOpen", hidden_size=48, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, head_dim=12,
                      moe_intermediate_size=20, vocab_size=139, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=2,
                      n_group=4, topk_group=2, routed_scaling_factor=1.5, attention_bias=True),
    # Every third layer neither rotates nor has chunks; every second layer is a mixture.
    "llama4": dict(kind="Llama4Text", hidden_size=40, num_hidden_layers=5, num_attention_heads=5, num_key_value_heads=1, head_dim=12,
                   intermediate_size=20, intermediate_size_mlp=52, vocab_size=137, num_local_experts=5, num_experts_per_tok=2,
                   interleave_moe_layer_step=2, no_rope_layer_interval=3, attention_chunk_size=24, floor_scale=11, attn_scale=0.4),
    # The chunks and the growth of queries are those of GGUF's readers, which begin beyond the texts.
    "llama4wide": dict(kind="Llama4Text", hidden_size=48, num_hidden_layers=4, num_attention_heads=6, num_key_value_heads=2, head_dim=8,
                       intermediate_size=20, intermediate_size_mlp=56, vocab_size=139, num_local_experts=6, num_experts_per_tok=1,
                       interleave_moe_layer_step=2),
    # As Maverick, queries and keys are not normed.
    "llama4plain": dict(kind="Llama4Text", hidden_size=40, num_hidden_layers=3, num_attention_heads=3, num_key_value_heads=3, head_dim=16,
                        intermediate_size=20, intermediate_size_mlp=44, vocab_size=141, num_local_experts=4, num_experts_per_tok=3,
                        moe_layers=[0], no_rope_layers=[1, 0, 1], attention_chunk_size=32, use_qk_norm=False, tie_word_embeddings=True,
                        attn_temperature_tuning=False),
    # Values are shorter than keys. Layers with a window have sinks, twice as many key and value heads, and a rope of their own.
    "mimov2": dict(kind="MiMoV2Flash", hidden_size=40, num_hidden_layers=4, num_attention_heads=6, num_key_value_heads=1, head_dim=24,
                   v_head_dim=10, intermediate_size=52, moe_intermediate_size=20, vocab_size=143, n_routed_experts=6, num_experts_per_tok=2,
                   n_group=3, topk_group=2, routed_scaling_factor=1.5, sliding_window=20, attention_value_scale=0.6,
                   layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
                   rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=50000.0, partial_rotary_factor=0.34),
                                        sliding_attention=dict(rope_type="default", rope_theta=500.0, partial_rotary_factor=0.34))),
    # The structure of the large Gemma 4 model: layers without a window use their keys as values, and have fewer KV heads.
    "gemma4moe": dict(kind="Gemma4Text", hidden_size=40, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                      head_dim=12, global_head_dim=16, num_global_key_value_heads=1, attention_k_eq_v=True, intermediate_size=37,
                      moe_intermediate_size=15, vocab_size=137, num_experts=7, top_k_experts=3, enable_moe_block=True,
                      hidden_size_per_layer_input=0, sliding_window=20, final_logit_softcapping=8.0, tie_word_embeddings=True,
                      layer_types=["sliding_attention", "full_attention", "full_attention"]),
}


@torch.no_grad()
def spread_out(model):
    """Sets weights so far from zero that every layer has an effect, and random norms and biases."""
    for parameter in model.parameters():
        if parameter.dim() >= 2:
            torch.nn.init.normal_(parameter, std=0.3)
    scatter_vectors(model)
    for name, parameter in model.named_parameters():  # Gemma's routers divide their input by the root of its size
        if name.endswith("router.proj.weight"):
            parameter *= parameter.shape[1] ** 0.5
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer += 0.1 * torch.randn_like(buffer)
    for name, parameter in model.named_parameters():  # ERNIE adds this bias to probabilities
        if name.endswith("e_score_correction_bias"):
            parameter *= 0.2


class RouterMargins:
    """Records the smallest distance between a chosen score and a score that was not chosen, over all tokens and layers."""

    def __init__(self, model):
        self.least = float("inf")
        for name, module in model.named_modules():
            is_plain = name.endswith("mlp.gate") and type(module) is torch.nn.Linear  # DeepSeek-V2's
            if is_plain or type(module).__name__.lower().endswith(("topkrouter", "gemma4textrouter", "tokenchoicerouter", "hunyuanmoev1gate", "llama4router")):
                module.config = getattr(module, "config", model.config)
                module.register_forward_hook(self.look)

    def look(self, router, inputs, outputs):
        place = 1 if type(router).__name__ == "Llama4Router" else 0  # Llama 4's returns its scores first
        logits = (outputs[place] if isinstance(outputs, tuple) else outputs).float().flatten(0, -2)
        if hasattr(router, "moe_statics"):
            logits = router.moe_statics(logits.softmax(-1))
        if len(inputs) > 1:
            logits = logits.sigmoid() + inputs[1]
        if hasattr(router, "router_jitter_noise"):
            self.look_at_neighbours(logits, 2 * router.router_jitter_noise)
        if hasattr(router, "e_score_correction_bias"):
            all_groups = router.num_group if hasattr(router, "num_group") else router.config.n_group
            chosen_groups = router.topk_group if hasattr(router, "topk_group") else router.config.topk_group
            groups = (logits.sigmoid() + router.e_score_correction_bias).view(len(logits), all_groups, -1)
            sums = groups.topk(2, dim=-1)[0].sum(-1).sort(-1, descending=True)
            if chosen_groups < all_groups:
                self.see(sums[0][:, chosen_groups - 1] - sums[0][:, chosen_groups])
            best = sums[1][:, :chosen_groups, None].expand(-1, -1, groups.shape[-1])
            logits = groups.gather(1, best).flatten(1)
        ordered = logits.sort(-1, descending=True)[0]
        names = ("top_k_experts", "num_experts_per_tok")
        chosen = router.top_k if hasattr(router, "top_k") else next(getattr(router.config, n) for n in names if hasattr(router.config, n))
        if hasattr(router, "e_score_correction_bias"):
            self.see(ordered[:, chosen - 1].clamp(min=0))  # for a score below 0, HF would choose from other groups, whose scores it sets to 0
        if chosen < ordered.shape[-1]:
            self.see(ordered[:, chosen - 1] - ordered[:, chosen])

    def look_at_neighbours(self, logits, tolerance):
        """For routers with `router_jitter_noise`, records how close any expert is to the threshold at which it joins the softmax of a
        chosen expert."""
        for best in logits.topk(2, dim=-1)[0].unbind(-1):
            best = best[:, None]
            self.see(((best - logits) / torch.maximum(logits.abs(), best) - tolerance).abs())

    def see(self, distances):
        self.least = min(self.least, distances.min().item())


def expectations(model, prompts):
    margins, cases = RouterMargins(model), []
    for ids in prompts:
        margins.least = float("inf")
        tokens, logprobs, margin = continue_greedily(model, ids)
        if margin <= MARGIN or margins.least <= ROUTER_MARGIN:
            continue
        check_without_cache(model, ids, tokens, logprobs)
        cases.append(dict(prompt=ids, tokens=tokens, logprobs=logprobs))
    print(f"kept {len(cases)} of {len(prompts)}", file=sys.stderr)
    return cases


def make(name):
    shape = dict(TINY[name])
    torch.manual_seed(len(name) + shape["vocab_size"])
    kind = shape.pop("kind")
    usual = dict(bos_token_id=0, eos_token_id=1, pad_token_id=None, max_position_embeddings=2048, tie_word_embeddings=False)
    model = AutoModelForCausalLM.from_config(getattr(transformers, f"{kind}Config")(**{**usual, **shape})).eval()
    spread_out(model)
    directory = f"{HERE}/models/{name}"
    model.to(torch.float16).save_pretrained(directory)
    if name in ("mixtral", "mimov2"):  # newer files may hold all experts in one tensor
        model.save_pretrained(f"{directory}.stacked", save_original_format=False)
    eager = dict(attn_implementation="eager", experts_implementation="eager")
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, **eager).eval()
    rng = random.Random(name)
    prompts = [[rng.randrange(2, shape["vocab_size"]) for _ in range(n)] for n in LENGTHS for _ in range(2)]
    write(f"tiny_{name}", expectations(model, prompts))


if __name__ == "__main__":
    for wanted in sys.argv[1:] or TINY:
        make(wanted)
