#!/usr/bin/env python3
"""Converts models/NAME to models/NAME.gguf as llama.cpp's converter does, for the models with recurrent layers of
make_hybrid_golden.py. The weights have the same numbers, so that tiny_NAME.json is valid for the file, too. The file
holds the negated decay rates instead of their logarithms. In qwen3next.older.gguf the input projections of the delta rule have the layout
of HF's files, as in llama.cpp's first files of that family. Needs: pip install numpy gguf
safetensors

  make_hybrid_gguf.py [NAME...]"""
import json
import sys

import gguf
import numpy as np
from safetensors.numpy import load_file

from make_gguf_twins import ARCHITECTURES, MODELS, first_of, permute, stack_experts

# model_type -> general.architecture
FAMILIES = {"lfm2": "lfm2", "lfm2_moe": "lfm2moe", "qwen3_next": "qwen3next", "qwen3_5_text": "qwen35",
            "qwen3_5_moe_text": "qwen35moe", "granitemoehybrid": "granitehybrid", "nemotron_h": "nemotron_h",
            "falcon_h1": "falcon-h1"}


def kinds_of(config):
    if config["model_type"] == "falcon_h1":
        return ["full_attention"] * config["num_hidden_layers"]
    return config.get("layer_types") or config.get("layers_block_type")


def add_sizes(writer, config, kinds):
    heads = config["num_attention_heads"]
    dim = config.get("head_dim") or config["hidden_size"] // heads
    kv_heads = config["num_key_value_heads"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(len(kinds))
    writer.add_head_count(heads)
    by_layer = config["model_type"] not in ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
    writer.add_head_count_kv([kv_heads if kind == "full_attention" else 0 for kind in kinds] if by_layer else kv_heads)
    writer.add_key_length(dim)
    writer.add_value_length(dim)
    writer.add_layer_norm_rms_eps(first_of(config, "rms_norm_eps", "norm_eps", "layer_norm_epsilon"))
    if "rope_parameters" in config:
        writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
        writer.add_rope_dimension_count(int(dim * config["rope_parameters"].get("partial_rotary_factor", 1)))
    writer.add_token_list([f"t{i}" for i in range(config["vocab_size"])])


def add_mlps(writer, config, kinds):
    family = config["model_type"]
    columns = config.get("intermediate_size")
    if family == "lfm2":
        columns = int(config["block_ffn_dim_multiplier"] * int(2 * columns / 3))
        columns = -(columns // -config["block_multiple_of"]) * config["block_multiple_of"]
    if family == "nemotron_h":
        columns = [(columns if kind == "mlp" else config["moe_intermediate_size"] if kind == "moe" else 0) for kind in kinds]
    if columns is not None:  # Qwen's newest mixtures of experts omit this number
        writer.add_feed_forward_length(columns)
    if "shared_intermediate_size" in config:
        writer.add_expert_shared_feed_forward_length(config["shared_intermediate_size"])
    experts = first_of(config, "num_local_experts", "num_experts", "n_routed_experts")
    if experts is None or (family == "nemotron_h" and "moe" not in kinds):
        return
    writer.add_expert_count(experts)
    writer.add_expert_used_count(config["num_experts_per_tok"])
    if "moe_intermediate_size" in config:
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    if "shared_expert_intermediate_size" in config:
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    if "routed_scaling_factor" in config:
        writer.add_expert_weights_scale(config["routed_scaling_factor"])
    if family == "lfm2_moe":
        writer.add_leading_dense_block_count(config["num_dense_layers"])
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if family == "nemotron_h":
        writer.add_expert_shared_feed_forward_length(config["moe_shared_expert_intermediate_size"])
        writer.add_expert_shared_count(config["n_shared_experts"])
        writer.add_expert_weights_norm(config["norm_topk_prob"])
        writer.add_expert_group_count(config["n_group"])


def add_states(writer, config, kinds):
    family = config["model_type"]
    if family.startswith("lfm2"):
        writer.add_shortconv_l_cache(config["conv_L_cache"])
        return
    if family.startswith("qwen"):
        writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
        writer.add_ssm_state_size(config["linear_key_head_dim"])
        writer.add_ssm_group_count(config["linear_num_key_heads"])
        writer.add_ssm_time_step_rank(config["linear_num_value_heads"])
        writer.add_ssm_inner_size(config["linear_value_head_dim"] * config["linear_num_value_heads"])
        writer.add_full_attention_interval(kinds.index("full_attention") + 1)
        if family != "qwen3_next":
            writer.add_rope_dimension_sections([11, 11, 10, 0])
        return
    heads, dim = first_of(config, "mamba_n_heads", "mamba_num_heads"), first_of(config, "mamba_d_head", "mamba_head_dim")
    writer.add_ssm_conv_kernel(first_of(config, "mamba_d_conv", "conv_kernel"))
    writer.add_ssm_state_size(first_of(config, "mamba_d_state", "ssm_state_size"))
    writer.add_ssm_group_count(first_of(config, "mamba_n_groups", "n_groups"))
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_inner_size(heads * dim)
    if family in ("nemotron_h", "falcon_h1"):
        return
    writer.add_rope_scaling_finetuned(config["position_embedding_type"] == "rope")
    writer.add_embedding_scale(config["embedding_multiplier"])
    writer.add_attention_scale(config["attention_multiplier"])
    writer.add_residual_scale(config["residual_multiplier"])
    writer.add_logit_scale(config["logits_scaling"])


def tiled(weight, heads, per_key, axis=0):
    """Reorders value heads: first the first value head of every key head, then the second one of every key head, and so on."""
    apart = weight.shape[:axis] + (heads, per_key, weight.shape[axis] // heads // per_key) + weight.shape[axis + 1:]
    return weight.reshape(apart).swapaxes(axis, axis + 1).reshape(weight.shape)


def with_tiled_values(name, weight, config):
    keys, values = config["linear_num_key_heads"], config["linear_num_value_heads"]
    per_key = values // keys
    first = 2 * keys * config["linear_key_head_dim"]  # the order of queries and keys does not change
    if "in_proj_qkv" in name or "conv1d" in name:
        return np.concatenate([weight[:first], tiled(weight[first:], keys, per_key)])
    if "out_proj" in name:
        return tiled(weight, keys, per_key, axis=1)
    return weight if "norm" in name else tiled(weight, keys, per_key)


def split_by_key_head(weight, config):
    """Splits HF's matrix, which is ordered by key head. Returns one matrix of all queries, keys and values, and one of the gates."""
    keys = config["linear_num_key_heads"]
    dim, value_dim = config["linear_key_head_dim"], config["linear_value_head_dim"] * config["linear_num_value_heads"] // keys
    parts = np.split(weight.reshape(keys, -1, weight.shape[1]), [dim, 2 * dim, 2 * dim + value_dim], axis=1)
    flat = [part.reshape(-1, weight.shape[1]) for part in parts]
    return np.concatenate(flat[:3]), flat[3]


def split_gates(tensors, config):
    """Splits the shared MLPs' input matrix, which HF's file holds as one tensor, into gate and up matrices."""
    out = {}
    for name, weight in tensors.items():
        if "shared_mlp.input_linear" not in name:
            out[name] = weight
            continue
        of = ("gate", "up") if not config["num_local_experts"] else ("shared_gate", "shared_up")
        for part, half in zip(of, np.split(weight, 2)):
            out[name.replace("input_linear", part)] = half
    return out


def target_of(name, names, config):
    """Returns GGUF's name of a tensor. Names that gguf's table lacks are those of llama.cpp's converter."""
    layer = next((part for part in name.split(".") if part.isdigit()), None)
    for end, target in (("A_log", "ssm_a"), (".D", "ssm_d"), ("dt_bias", "ssm_dt.bias"), ("shared_mlp.gate.weight", "ffn_gate.weight"),
                        ("shared_mlp.up.weight", "ffn_up.weight"), ("shared_mlp.shared_gate.weight", "ffn_gate_shexp.weight"),
                        ("shared_mlp.shared_up.weight", "ffn_up_shexp.weight"), ("expert_bias", "exp_probs_b.bias"),
                        ("e_score_correction_bias", "exp_probs_b.bias")):
        if name.endswith(end):
            return f"blk.{layer}.{target}"
    if name.endswith("shared_mlp.output_linear.weight"):
        return f"blk.{layer}.ffn_down{'_shexp' if config['num_local_experts'] else ''}.weight"
    if config["model_type"] == "nemotron_h" and name.endswith((".experts.up_proj.weight", ".experts.down_proj.weight")):
        return f"blk.{layer}.ffn_{name.split('.')[-2].removesuffix('_proj')}_exps.weight"
    for w, part in (("w1", "gate"), ("w2", "down"), ("w3", "up")):
        if name.endswith(f".experts.{w}.weight"):
            return f"blk.{layer}.ffn_{part}_exps.weight"
    if config["model_type"] == "qwen3_next" and ".mlp." in name and name.endswith("_proj.weight") and "expert" not in name:
        return f"blk.{layer}.ffn_{name.split('.')[-2].removesuffix('_proj')}.weight"  # no real model has such a layer
    target = names.get_name(name, try_suffixes=(".weight", ".bias"))
    if target is None:
        raise KeyError(name)
    return target


def can_permute(config):
    return config["hidden_size"] // config["num_attention_heads"] % 2 == 0


def shaped(target, weight, config):
    """Returns a tensor with GGUF's shape and type. Vectors are fp32; the vectors of a Mamba-2 layer become matrices."""
    family = config["model_type"]
    if target.endswith("ssm_a"):
        weight = -np.exp(weight.astype(np.float32))
    if family in ("granitemoehybrid", "nemotron_h", "falcon_h1"):
        if target.endswith(("ssm_a", "ssm_d")):
            return weight.astype(np.float32).reshape(-1, 1)
        if target.endswith("ssm_norm.weight"):
            return weight.astype(np.float32).reshape(first_of(config, "mamba_n_groups", "n_groups"), -1)
    if target.endswith(("conv1d.weight", "shortconv.conv.weight")):
        return weight.astype(np.float32).reshape(weight.shape[0], -1)
    if weight.ndim == 1:
        adds_one = family.startswith("qwen") and "norm" in target and "ssm_norm" not in target
        return weight.astype(np.float32) + (1 if adds_one else 0)
    return weight.astype(np.float32) if ".ffn_gate_inp" in target else weight


def with_factors(name, weight, config):
    """Multiplies a weight of Falcon-H1 by the multipliers that config.json has for the weight's matrix. A multiplied weight is returned in
    fp32, because fp16 would round it."""
    attention, states = config["attention_in_multiplier"], config["ssm_in_multiplier"]
    factors = {"q_proj": attention, "k_proj": attention * config["key_multiplier"], "v_proj": attention,
               "o_proj": config["attention_out_multiplier"], "out_proj": config["ssm_out_multiplier"], "in_proj": states,
               "gate_proj": config["mlp_multipliers"][0], "down_proj": config["mlp_multipliers"][1],
               "lm_head": config["lm_head_multiplier"], "embed_tokens": config["embedding_multiplier"]}
    factor = factors.get(name.split(".")[-2])
    if factor is None:
        return weight
    weight = weight.astype(np.float32) * factor
    if ".in_proj." in name:
        values, keys = config["mamba_d_ssm"], config["mamba_n_groups"] * config["mamba_d_state"]
        sizes = (values, values, keys, keys, config["mamba_n_heads"])
        weight *= np.repeat(np.array(config["ssm_multipliers"], np.float32), sizes)[:, None]
    return weight


def make(name, older=False):
    with open(f"{MODELS}/{name}/config.json") as f:
        config = json.load(f)
    family, kinds = FAMILIES[config["model_type"]], kinds_of(config)
    if "moe" in kinds:
        family += "_moe"
    names = gguf.get_tensor_name_map(ARCHITECTURES[family], len(kinds))
    writer = gguf.GGUFWriter(f"{MODELS}/{name}{'.older' if older else ''}.gguf", family)
    add_sizes(writer, config, kinds)
    add_mlps(writer, config, kinds)
    add_states(writer, config, kinds)
    tensors = stack_experts(split_gates(load_file(f"{MODELS}/{name}/model.safetensors"), config))
    for tensor, weight in tensors.items():
        if family in ("qwen35", "qwen35moe") and "linear_attn." in tensor:
            weight = with_tiled_values(tensor, weight, config)
        if "in_proj_qkvz" in tensor and not older:
            qkv, z = split_by_key_head(weight, config)
            layer = tensor.split(".")[2]
            writer.add_tensor(f"blk.{layer}.attn_qkv.weight", qkv)
            writer.add_tensor(f"blk.{layer}.attn_gate.weight", z)
            continue
        if family == "falcon-h1":
            weight = with_factors(tensor, weight, config)
        target = target_of(tensor, names, config)
        if family == "granitehybrid" and target.endswith(("attn_q.weight", "attn_k.weight")) and can_permute(config):
            weight = permute(weight, config["num_attention_heads" if "attn_q" in target else "num_key_value_heads"])
        writer.add_tensor(target, np.ascontiguousarray(shaped(target, weight, config)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    for twin in sys.argv[1:] or ("lfm2", "lfm2moe", "qwen3next", "qwen35", "qwen35moe", "granitehybrid", "granitehybridmoe",
                                 "nemotronh", "nemotronhmoe", "falconh1", "falconh1after"):
        make(twin)
        if twin == "qwen3next":
            make(twin, older=True)
