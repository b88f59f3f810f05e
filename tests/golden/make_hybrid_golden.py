#!/usr/bin/env python3
"""Makes random models with recurrent layers, which have a state instead of keys and values (models/NAME, safetensors in
float16), and the continuations of their prompts by HF transformers in float32 (tiny_NAME.json). Uses functions of
make_golden.py and make_mixture_golden.py. Needs: pip install torch transformers accelerate safetensors

  make_hybrid_golden.py [NAME...]

qwen35.vision and qwen35moe.vision have the same numbers as qwen35 and qwen35moe, in the file format of vision models. A
few tensors of the vision part are added, which text does not use."""
import json
import os
import random
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import make_golden
import make_mixture_golden
from make_golden import HERE, LENGTHS, write

LINEAR, FULL = "linear_attention", "full_attention"
# The numbers of heads and channels are unusual on purpose. Tests use more ranks than the delta rule has heads.
TINY = {
    # The MLP's width is 72: 90 * 2 / 3 * 1.1 = 66, rounded up to a multiple of 8.
    "lfm2": dict(kind="Lfm2", hidden_size=48, num_hidden_layers=4, num_attention_heads=6, num_key_value_heads=2, intermediate_size=90,
                 vocab_size=131, block_multiple_of=8, block_ffn_dim_multiplier=1.1, conv_L_cache=3, rope_theta=1000000.0,
                 layer_types=["conv", "conv", FULL, "conv"], tie_word_embeddings=True),
    "lfm2moe": dict(kind="Lfm2Moe", hidden_size=40, num_hidden_layers=4, num_attention_heads=5, num_key_value_heads=1, intermediate_size=52,
                    vocab_size=133, conv_L_cache=4, layer_types=["conv", FULL, "conv", "conv"], tie_word_embeddings=True, num_experts=5,
                    num_experts_per_tok=2, moe_intermediate_size=20, num_dense_layers=1, routed_scaling_factor=1.5),
    # Rotary embeddings: layers with full attention rotate half of a head's pairs, layers with a window rotate all pairs.
    "lfm3": dict(kind="Lfm3", hidden_size=48, num_hidden_layers=5, num_attention_heads=6, num_key_value_heads=2, head_dim=12,
                 intermediate_size=60, vocab_size=135, conv_L_cache=5, sliding_window=20, tie_word_embeddings=True,
                 layer_types=["conv", FULL, "sliding_attention", "conv", FULL],
                 rope_parameters=dict(sliding_attention=dict(rope_type="default", rope_theta=10000.0),
                                      full_attention=dict(rope_type="proportional", partial_rotary_factor=0.5, rope_theta=500.0))),
    "qwen3next": dict(kind="Qwen3Next", hidden_size=40, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                      intermediate_size=56, vocab_size=137, layer_types=[LINEAR, FULL, LINEAR], linear_num_key_heads=3,
                      linear_num_value_heads=6, linear_key_head_dim=12, linear_value_head_dim=10, linear_conv_kernel_dim=4,
                      num_experts=5, num_experts_per_tok=2, moe_intermediate_size=20, shared_expert_intermediate_size=24,
                      mlp_only_layers=[1]),
    "qwen35": dict(kind="Qwen3_5Text", hidden_size=40, num_hidden_layers=4, num_attention_heads=6, num_key_value_heads=2, head_dim=16,
                   intermediate_size=60, vocab_size=131, full_attention_interval=3, linear_num_key_heads=2, linear_num_value_heads=4,
                   linear_key_head_dim=16, linear_value_head_dim=20, linear_conv_kernel_dim=4, tie_word_embeddings=True),
    "qwen35moe": dict(kind="Qwen3_5MoeText", hidden_size=40, num_hidden_layers=3, num_attention_heads=5, num_key_value_heads=1,
                      head_dim=16, vocab_size=139, layer_types=[LINEAR, LINEAR, FULL], linear_num_key_heads=3, linear_num_value_heads=3,
                      linear_key_head_dim=14, linear_value_head_dim=12, linear_conv_kernel_dim=4, num_experts=5, num_experts_per_tok=2,
                      moe_intermediate_size=20, shared_expert_intermediate_size=24),
    # Mamba-2 has one group of 7 heads, which the ranks share, or 2 groups of 4. Head sizes are no multiples of a vector's length.
    "granitehybrid": dict(kind="GraniteMoeHybrid", hidden_size=42, num_hidden_layers=4, num_attention_heads=6, num_key_value_heads=2,
                          vocab_size=131, layer_types=[LINEAR, LINEAR, FULL, LINEAR], mamba_n_heads=7, mamba_d_head=12, mamba_expand=2,
                          mamba_n_groups=1, mamba_d_state=10, num_local_experts=0, shared_intermediate_size=60, embedding_multiplier=3.0,
                          residual_multiplier=0.4, attention_multiplier=0.3, logits_scaling=1.5, tie_word_embeddings=True),
    "granitehybridmoe": dict(kind="GraniteMoeHybrid", hidden_size=40, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                             vocab_size=137, layer_types=[LINEAR, FULL, LINEAR], mamba_n_heads=8, mamba_d_head=10, mamba_expand=2,
                             mamba_n_groups=2, mamba_d_state=16, mamba_d_conv=3, mamba_conv_bias=False, num_local_experts=5,
                             num_experts_per_tok=2, intermediate_size=20, shared_intermediate_size=24, position_embedding_type="rope",
                             embedding_multiplier=2.0, residual_multiplier=0.5, attention_multiplier=0.3, logits_scaling=2.0),
    "bamba": dict(kind="Bamba", hidden_size=40, num_hidden_layers=4, num_attention_heads=5, num_key_value_heads=1, intermediate_size=56,
                  vocab_size=139, attn_layer_indices=[1], mamba_n_heads=5, mamba_d_head=16, mamba_expand=2, mamba_n_groups=1,
                  mamba_d_state=12),
    # Attention and Mamba-2 side by side in every layer: without a norm of Mamba-2, with one after the gate, with one before the gate.
    "falconh1": dict(kind="FalconH1", hidden_size=42, num_hidden_layers=3, num_attention_heads=5, num_key_value_heads=1, head_dim=12,
                     intermediate_size=58, vocab_size=131, mamba_d_ssm=84, mamba_n_heads=7, mamba_d_head=12, mamba_n_groups=1,
                     mamba_d_state=10, mamba_d_conv=4, mamba_rms_norm=False, mamba_norm_before_gate=False, rope_theta=100000000000.0,
                     embedding_multiplier=5.6, lm_head_multiplier=0.4, key_multiplier=0.39, attention_in_multiplier=1.2,
                     attention_out_multiplier=0.9, ssm_in_multiplier=1.25, ssm_out_multiplier=0.7, mlp_multipliers=[0.88, 0.59],
                     ssm_multipliers=[0.85, 0.75, 0.65, 0.8, 0.55]),
    "falconh1after": dict(kind="FalconH1", hidden_size=40, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, head_dim=8,
                          intermediate_size=56, vocab_size=133, mamba_d_ssm=80, mamba_n_heads=8, mamba_d_head=10, mamba_n_groups=2,
                          mamba_d_state=12, mamba_d_conv=3, mamba_conv_bias=False, mamba_rms_norm=True, mamba_norm_before_gate=False,
                          embedding_multiplier=2.0, lm_head_multiplier=1.5, key_multiplier=0.7, ssm_multipliers=[1.3, 0.5, 0.6, 0.7, 0.8],
                          mlp_multipliers=[1.4, 0.7]),
    "falconh1before": dict(kind="FalconH1", hidden_size=36, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=3, head_dim=12,
                           intermediate_size=44, vocab_size=127, mamba_d_ssm=66, mamba_n_heads=6, mamba_d_head=11, mamba_n_groups=3,
                           mamba_d_state=8, mamba_d_conv=4, mamba_rms_norm=True, mamba_norm_before_gate=True, ssm_out_multiplier=0.8,
                           tie_word_embeddings=True, embedding_multiplier=1.7, lm_head_multiplier=0.8),
    "nemotronh": dict(kind="NemotronH", hidden_size=40, layers_block_type=[LINEAR, "mlp", LINEAR, FULL, "mlp"], num_attention_heads=5,
                      num_key_value_heads=1, head_dim=12, intermediate_size=50, vocab_size=131, ssm_state_size=10, mamba_num_heads=6,
                      mamba_head_dim=11, n_groups=2, conv_kernel=4),
    "nemotronhmoe": dict(kind="NemotronH", hidden_size=40, layers_block_type=[LINEAR, "moe", FULL, "moe", LINEAR], num_attention_heads=4,
                         num_key_value_heads=2, head_dim=12, intermediate_size=50, vocab_size=137, ssm_state_size=12, mamba_num_heads=4,
                         mamba_head_dim=10, n_groups=2, conv_kernel=4, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1,
                         moe_intermediate_size=20, moe_shared_expert_intermediate_size=24, routed_scaling_factor=2.5),
}
make_golden.CACHE_TOLERANCE = 3e-4  # HF uses one formula for tokens after a cache and another one for whole texts


@torch.no_grad()
def spread_out(model):
    """Sets weights so far from zero that every layer has an effect, and decay rates so that some states depend on few tokens and others on
    many."""
    make_mixture_golden.spread_out(model)
    for name, parameter in model.named_parameters():
        if name.endswith("A_log"):
            parameter.copy_(torch.log(torch.empty_like(parameter).uniform_(0.01, 0.5)))
        if name.endswith((".dt_bias", ".D")):
            parameter.uniform_(-1, 1)
    for name, buffer in model.named_buffers():
        if name.endswith(("expert_bias", "e_score_correction_bias")):
            buffer += 0.1 * torch.randn_like(buffer)


@torch.no_grad()
def make_vision_twin(name):
    """Writes NAME.vision and checks that HF, which reads the text model only, computes the same logits."""
    directory = f"{HERE}/models/{name}"
    os.makedirs(f"{directory}.vision", exist_ok=True)
    with open(f"{directory}/config.json") as f:
        text = json.load(f)
    kind = text["model_type"].removesuffix("_text")
    vision = dict(model_type=f"{kind}_vision", depth=1, hidden_size=8, num_heads=2, intermediate_size=8, patch_size=2,
                  out_hidden_size=text["hidden_size"], num_position_embeddings=4)
    with open(f"{directory}.vision/config.json", "w") as f:
        json.dump(dict(model_type=kind, tie_word_embeddings=text["tie_word_embeddings"], text_config=text, vision_config=vision), f,
                  indent=2)
        f.write("\n")
    tensors = {(key.replace("model.", "model.language_model.", 1) if key.startswith("model.") else key): tensor
               for key, tensor in load_file(f"{directory}/model.safetensors").items()}
    tensors["model.visual.merger.norm.weight"] = torch.ones(8, dtype=torch.float16)
    tensors["mtp.norm.weight"] = torch.ones(8, dtype=torch.float16)
    save_file(tensors, f"{directory}.vision/model.safetensors", metadata=dict(format="pt"))
    alone, both = (AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval() for path in (directory, f"{directory}.vision"))
    ids = torch.arange(2, 60)[None]
    assert torch.equal(alone(ids).logits, both(ids).logits), name


class Uncached:
    """A model that computes every text from its beginning, because HF's Bamba treats tokens after a cache as the first tokens."""

    def __init__(self, model):
        self.model = model

    def __call__(self, input_ids, past_key_values=None, use_cache=False):
        ids = input_ids if past_key_values is None else torch.cat([past_key_values, input_ids], 1)
        out = self.model(input_ids=ids, use_cache=False)
        out.past_key_values = ids
        return out


def make(name):
    shape = dict(TINY[name])
    torch.manual_seed(len(name) + shape["vocab_size"])
    kind = shape.pop("kind")
    usual = dict(bos_token_id=0, eos_token_id=1, pad_token_id=None, max_position_embeddings=2048, tie_word_embeddings=False)
    model = AutoModelForCausalLM.from_config(getattr(transformers, f"{kind}Config")(**{**usual, **shape})).eval()
    spread_out(model)
    directory = f"{HERE}/models/{name}"
    model.to(torch.float16).save_pretrained(directory)
    mixture = "num_experts" in shape or shape.get("num_local_experts", 0) > 0 or "n_routed_experts" in shape
    eager = dict(attn_implementation="eager", **(dict(experts_implementation="eager") if mixture else {}))
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, **eager).eval()
    if kind == "Bamba":
        model = Uncached(model)
    rng = random.Random(name)
    prompts = [[rng.randrange(2, shape["vocab_size"]) for _ in range(n)] for n in LENGTHS for _ in range(2)]
    of_kind = make_mixture_golden if mixture else make_golden
    write(f"tiny_{name}", of_kind.expectations(model, prompts))


if __name__ == "__main__":
    for wanted in sys.argv[1:] or TINY:
        make(wanted)
        if wanted in ("qwen35", "qwen35moe"):
            make_vision_twin(wanted)
