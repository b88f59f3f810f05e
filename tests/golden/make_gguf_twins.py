#!/usr/bin/env python3
"""Converts models/NAME to models/NAME.gguf as llama.cpp's converter does. The models are Llamas with scaled positions
and models of other families. Linear scaling becomes metadata; llama3's scaling becomes a tensor of divisors,
rope_freqs.weight. Only Llama-like families get permuted query and key rows. All experts of a layer become one tensor.
The weights have the same numbers, so that tiny_NAME.json, which make_golden.py made from the directory, is valid for
the file, too. NAME.mtp has the prediction layer of mtp/NAME.safetensors (make_mtp_golden.py) after the layers of NAME.
Needs: pip install numpy gguf safetensors

  make_gguf_twins.py [NAME...]"""
import glob
import json
import math
import os
import re
import sys

import gguf
import numpy as np
from safetensors.numpy import load_file

# model_type -> general.architecture
FAMILIES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "phi3": "phi3", "granite": "granite", "smollm3": "smollm3",
            "olmo2": "olmo2", "olmo3": "olmo2", "gemma": "gemma", "gemma2": "gemma2", "gemma3_text": "gemma3", "glm4": "glm4", "mixtral": "llama", "qwen2_moe": "qwen2moe",
            "qwen3_moe": "qwen3moe", "olmoe": "olmoe", "granitemoe": "granitemoe", "glm4_moe": "glm4moe",
            "seed_oss": "seed_oss", "arcee": "arcee", "exaone4": "exaone4", "hunyuan_v1_dense": "hunyuan-dense", "hunyuan_v1_moe": "hunyuan-moe", "afmoe": "afmoe",
            "dots1": "dots1", "minimax_m2": "minimax-m2", "ernie4_5": "ernie4_5", "ernie4_5_moe": "ernie4_5-moe",
            "deepseek_v2": "deepseek2", "deepseek_v3": "deepseek2", "glm4_moe_lite": "deepseek2", "llama4_text": "llama4", "mimo_v2_flash": "mimo2"}
ARCHITECTURES = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}
PERMUTED = ("llama", "granite", "granitemoe", "smollm3", "arcee")
MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
def permute(weight, heads):
    """Reorders the rows of each head: HF puts the two dimensions of a rotated pair half a head apart, GGUF side by side."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def divisors(rope, head_dim):
    """Returns the divisors that llama3's scaling applies to the frequencies."""
    context, low, high = rope["original_max_position_embeddings"], rope["low_freq_factor"], rope["high_freq_factor"]
    out = []
    for i in range(0, head_dim, 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (i / head_dim)
        smooth = (context / wavelength - low) / (high - low)
        out.append(1 / ((1 - smooth) / rope["factor"] + smooth) if 0 <= smooth <= 1 else 1 if smooth > 1 else rope["factor"])
    return np.array(out, np.float32)


def add_scaling(writer, rope, config, dim):
    """Adds the scaling of positions, which holds for all layers without a window."""
    kind = rope["rope_type"]
    if kind == "dynamic":  # HunYuan's: it is part of the base
        return
    if kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    elif kind == "llama3":
        writer.add_tensor("rope_freqs.weight", divisors(rope, dim))
    elif kind == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        usual = 0.1 * math.log(rope["factor"]) + 1  # readers apply this factor by themselves
        writer.add_rope_scaling_attn_factors(rope.get("attention_factor", usual) / usual)
    elif kind == "longrope":
        original = config["original_max_position_embeddings"]
        grown = config["max_position_embeddings"] / original
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(grown) / math.log(original)))
        writer.add_tensor("rope_factors_short.weight", np.array(rope["short_factor"], np.float32))
        writer.add_tensor("rope_factors_long.weight", np.array(rope["long_factor"], np.float32))


def add_own(writer, family, config):
    """Adds the metadata of one family besides sizes and rotation."""
    if config.get("sliding_window") and family != "qwen2":
        writer.add_sliding_window(config["sliding_window"] - (family == "mimo2"))  # mimo2's window leaves out the query
    if family in ("granite", "granitemoe"):
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    if family in ("gemma2", "gemma3"):
        writer.add_attention_scale(config["query_pre_attn_scalar"] ** -0.5)
    if family == "gemma2":
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if family == "mimo2":
        writer.add_float32("mimo2.attention.value_scale", config["attention_value_scale"])
        writer.add_rope_freq_base_swa(config["rope_parameters"]["sliding_attention"]["rope_theta"])
    if family in ("exaone4", "afmoe", "mimo2") and config.get("sliding_window"):
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config["layer_types"]])
    if family == "gemma3":
        writer.add_array("gemma3.attention.sliding_window_pattern", [kind == "sliding_attention" for kind in config["layer_types"]])


def first_of(config, *names):
    return next((config[name] for name in names if config.get(name) is not None), None)


def add_mixture(writer, config):
    experts = first_of(config, "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
    if experts is None:
        return
    writer.add_expert_count(experts)
    writer.add_expert_used_count(first_of(config, "num_experts_per_tok", "moe_k") or config["moe_topk"][0])
    if "moe_intermediate_size" in config:
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    if "shared_expert_intermediate_size" in config:
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    if config["model_type"] == "hunyuan_v1_moe":
        writer.add_expert_feed_forward_length(config["intermediate_size"])
        writer.add_expert_shared_feed_forward_length(config["intermediate_size"])
    if config["model_type"] == "minimax_m2":
        writer.add_expert_feed_forward_length(config["intermediate_size"])
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if config["model_type"] == "afmoe":
        writer.add_leading_dense_block_count(config["num_dense_layers"])
        writer.add_expert_shared_count(config["num_shared_experts"])
        writer.add_expert_weights_scale(config["route_scale"])
        writer.add_expert_weights_norm(True)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if config["model_type"] == "mimo_v2_flash":
        writer.add_expert_group_count(config["n_group"])
        writer.add_expert_group_used_count(config["topk_group"])
        writer.add_expert_weights_scale(config["routed_scaling_factor"])
        writer.add_expert_weights_norm(config["norm_topk_prob"])
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if config["model_type"] == "llama4_text":
        writer.add_interleave_moe_layer_step(config["interleave_moe_layer_step"])
        writer.add_expert_feed_forward_length(config["intermediate_size"])
    if config["model_type"] == "ernie4_5_moe":
        writer.add_leading_dense_block_count(config["moe_layer_start_index"])
        writer.add_expert_shared_count(config["moe_num_shared_experts"])
        writer.add_interleave_moe_layer_step(config["moe_layer_interval"])
    if config["model_type"] in ("glm4_moe", "dots1", "deepseek_v2", "deepseek_v3", "glm4_moe_lite"):
        softmax = config["model_type"] == "deepseek_v2"
        writer.add_leading_dense_block_count(config.get("first_k_dense_replace", 1))
        writer.add_expert_shared_count(config["n_shared_experts"])
        writer.add_expert_group_count(config["n_group"] or 1)
        writer.add_expert_group_used_count(config["topk_group"] or 1)
        writer.add_expert_weights_scale(config["routed_scaling_factor"])
        writer.add_expert_weights_norm(config["norm_topk_prob"])
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SOFTMAX if softmax else gguf.ExpertGatingFuncType.SIGMOID)


def add_latents(writer, config, by_head):
    """Adds the sizes of latent attention. Newer files (by_head) give the cached sizes of keys and values, and have further keys for the
    sizes per head."""
    rotated, key, value = config["qk_rope_head_dim"], config["qk_nope_head_dim"], config["v_head_dim"]
    if config["q_lora_rank"]:
        writer.add_q_lora_rank(config["q_lora_rank"])
    writer.add_kv_lora_rank(config["kv_lora_rank"])
    writer.add_rope_dimension_count(rotated)
    writer.add_key_length(config["kv_lora_rank"] + rotated if by_head else key + rotated)
    writer.add_value_length(config["kv_lora_rank"] if by_head else value)
    if by_head:
        writer.add_key_length_mla(key + rotated)
        writer.add_value_length_mla(value)
    all_dims = config["rope_parameters"].get("mscale_all_dim", 0)
    if all_dims:
        writer.add_rope_scaling_yarn_log_mul(0.1 * all_dims)


def by_heads(config, name, weight):
    """Splits kv_b_proj into the per-head matrices k_b_proj (transposed) and v_b_proj, which make keys and values from latents."""
    if not name.endswith("kv_b_proj.weight"):
        return {name: weight}
    heads, key = config["num_attention_heads"], config["qk_nope_head_dim"]
    both = weight.reshape(heads, -1, weight.shape[1])
    return {name.replace("kv_b_proj", "k_b_proj"): np.ascontiguousarray(both[:, :key].swapaxes(1, 2)),
            name.replace("kv_b_proj", "v_b_proj"): np.ascontiguousarray(both[:, key:])}


def stack_experts(weights):
    """Joins the experts' matrices of a layer to one tensor for each of gate, up and down. HF's file has a tensor for each expert, or gate
    and up in one tensor, which is split."""
    experts, others = {}, {}
    for name, weight in weights.items():
        found = re.search(r"\.experts\.(\d+)\.", name)
        if ".input_linear." in name:  # gate matrices first, then up matrices
            prefix = name.split("block_sparse_moe")[0] + "mlp.experts."
            others[f"{prefix}gate_proj.weight"], others[f"{prefix}up_proj.weight"] = np.split(weight, 2, axis=1)
        elif name.endswith("feed_forward.experts.gate_up_proj"):  # Llama 4's matrices are [columns, rows]
            prefix = name.removesuffix("gate_up_proj")
            for part, half in zip(("gate", "up"), np.split(weight, 2, axis=2)):
                others[f"{prefix}{part}_proj.weight"] = np.ascontiguousarray(half.swapaxes(1, 2))
        elif name.endswith("feed_forward.experts.down_proj"):
            others[f"{name}.weight"] = np.ascontiguousarray(weight.swapaxes(1, 2))
        elif found:
            experts.setdefault(name.replace(found[0], ".experts."), {})[int(found[1])] = weight
        else:
            others[name] = weight
    return others | {name: np.stack([of[i] for i in range(len(of))]) for name, of in experts.items()}


def make(name):
    twin, name, predicts = name, name.removesuffix(".mtp"), name.endswith(".mtp")
    with open(f"{MODELS}/{name}/config.json") as f:
        config = json.load(f)
    rope, heads, kv_heads = config["rope_parameters"], config["num_attention_heads"], config["num_key_value_heads"]
    rope = rope.get("full_attention", rope)
    family, dim = FAMILIES[config["model_type"]], config.get("head_dim") or config["hidden_size"] // heads
    blocks = config["num_hidden_layers"] + predicts
    names = gguf.get_tensor_name_map(ARCHITECTURES[family], blocks)
    writer = gguf.GGUFWriter(f"{MODELS}/{twin}.gguf", family)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(blocks)
    if predicts:
        writer.add_nextn_predict_layers(1)
    writer.add_feed_forward_length(config.get("intermediate_size_mlp", config["intermediate_size"]))
    writer.add_head_count(heads)
    by_head = config["model_type"] != "deepseek_v2"  # the layout of newer files
    latents = "kv_lora_rank" in config
    slides = [kind == "sliding_attention" for kind in config["layer_types"]] if family == "mimo2" else []
    writer.add_head_count_kv(1 if latents and by_head else [kv_heads * (1 + slide) for slide in slides] or kv_heads)
    if latents:
        add_latents(writer, config, by_head)
    else:
        writer.add_key_length(dim)
        writer.add_value_length(config.get("v_head_dim", dim))
        writer.add_rope_dimension_count(int(dim * rope.get("partial_rotary_factor", 1)))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(rope["rope_theta"] * rope.get("alpha", 1) ** (dim / (dim - 2)))
    writer.add_token_list([f"t{i}" for i in range(config["vocab_size"])])
    add_scaling(writer, rope, config, dim)
    add_own(writer, family, config)
    add_mixture(writer, config)
    paths = sorted(glob.glob(f"{MODELS}/{name}/*.safetensors"))
    for path in paths + [f"{os.path.dirname(MODELS)}/mtp/{name}.safetensors"] * predicts:
        tensors = stack_experts(load_file(path))
        if latents and by_head:
            tensors = {name: part for tensor, weight in tensors.items() for name, part in by_heads(config, tensor, weight).items()}
        for tensor, weight in tensors.items():
            tensor = tensor.replace("e_score_correction_bias", "e_score_correction.bias").replace(".expert_bias", ".expert_bias.bias")
            tensor += ".weight" * tensor.endswith("attention_sink_bias")
            target = names.get_name(tensor, try_suffixes=(".weight", ".bias"))
            if family in PERMUTED and ".attn_q" in target:
                weight = permute(weight, heads)
            if family in PERMUTED and ".attn_k" in target:
                weight = permute(weight, kv_heads)
            if "exp_probs_b" in target:
                weight = weight.reshape(-1)
            if ".ffn_gate_inp" in target:  # GGUF files hold routers in fp32
                weight = weight.astype(np.float32)
            if weight.ndim == 1:  # GGUF files hold vectors in fp32; a Gemma norm's weight includes the 1 that HF adds
                weight = weight.astype(np.float32) + (1 if family in ("gemma", "gemma2", "gemma3") else 0)
            writer.add_tensor(target, weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    for twin in sys.argv[1:] or ("linear", "mqa", "qwen25", "qwen3", "phi3", "granite", "smollm3", "yarn", "olmo3", "gemma", "gemma2", "gemma3",
                                 "glm4", "ernie", "mixtral", "qwen3moe", "qwen2moe_all", "olmoe", "granitemoe", "glm4moe", "dots1", "minimaxm2",
                                 "erniemoe", "deepseekv2", "deepseekv3", "glm4moelite", "seedoss", "arcee", "exaone4", "exaone4full",
                                 "hunyuan", "afmoe", "hunyuanmoe", "llama4wide", "mimov2", "glm4moe.mtp"):
        make(twin)
