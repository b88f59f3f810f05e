#!/usr/bin/env python3
"""Converts models/NAME, a text model of Gemma 4, to models/NAME.gguf as llama.cpp's converter does. A tensor of
divisors says which pairs rotate in layers without a window. The experts' gate and up matrices are one tensor. A number
that differs between layers is a list. The weights have the same numbers, so that tiny_NAME.json, which make_golden.py
or make_mixture_golden.py made from the directory, is valid for the file, too. Needs: pip install numpy gguf safetensors

  make_gemma4_gguf.py [NAME...]"""
import json
import sys

import gguf
import numpy as np
from safetensors.numpy import load_file

from make_gguf_twins import MODELS

# Tensors that gguf's table of names lacks: HF's name -> GGUF's name.
SCALES = {"router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale"}


def add_sizes(writer, config, slides):
    """Adds the sizes. The usual keys hold the head sizes of layers without a window; layers with a window have their own keys."""
    layers, shared = config["num_hidden_layers"], config["num_kv_shared_layers"]
    others = config["per_layer_config"][str(slides.index(False))]
    writer.add_block_count(layers)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_head_count(config["num_attention_heads"])
    kv_heads = config["num_key_value_heads"]
    writer.add_head_count_kv([kv_heads if slide else others["num_key_value_heads"] for slide in slides]
                             if "num_key_value_heads" in others else kv_heads)
    columns = config["intermediate_size"]
    writer.add_feed_forward_length([columns * (1 if i < layers - shared else 2) for i in range(layers)]
                                   if config["use_double_wide_mlp"] else columns)
    writer.add_key_length(others["head_dim"])
    writer.add_value_length(others["head_dim"])
    writer.add_key_length_swa(config["head_dim"])
    writer.add_value_length_swa(config["head_dim"])
    writer.add_rope_dimension_count(others["head_dim"])
    writer.add_rope_dimension_count_swa(config["head_dim"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_sliding_window_pattern(slides)
    writer.add_shared_kv_layers(shared)
    writer.add_embedding_length_per_layer_input(config["hidden_size_per_layer_input"])
    return others["head_dim"]


def add_rotation(writer, ropes, head_dim):
    full = ropes["full_attention"]
    writer.add_rope_freq_base(full["rope_theta"])
    writer.add_rope_freq_base_swa(ropes["sliding_attention"]["rope_theta"])
    pairs, turning = head_dim // 2, int(head_dim * full["partial_rotary_factor"] / 2)
    writer.add_tensor("rope_freqs.weight", np.array([1.0] * turning + [1e30] * (pairs - turning), np.float32))


def make(name):
    with open(f"{MODELS}/{name}/config.json") as f:
        config = json.load(f)
    slides = [kind == "sliding_attention" for kind in config["layer_types"]]
    writer = gguf.GGUFWriter(f"{MODELS}/{name}.gguf", "gemma4")
    head_dim = add_sizes(writer, config, slides)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if config["final_logit_softcapping"] is not None:
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if config["enable_moe_block"]:
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["top_k_experts"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_token_list([f"t{i}" for i in range(config["vocab_size"])])
    add_rotation(writer, config["rope_parameters"], head_dim)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GEMMA4, config["num_hidden_layers"])
    for tensor, weight in load_file(f"{MODELS}/{name}/model.safetensors").items():
        scale = next((suffix for suffix in SCALES if tensor.endswith(suffix)), None)
        if scale is not None:
            target = f"blk.{tensor.split('.')[2]}.{SCALES[scale]}"
        else:
            target = names.get_name(tensor.removesuffix(".weight")) + ".weight"
        if weight.ndim == 1 or ".ffn_gate_inp" in target:  # GGUF files hold vectors and routers in fp32
            weight = weight.astype(np.float32)
        writer.add_tensor(target, weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


for twin in sys.argv[1:] or ("gemma4", "gemma4moe"):
    make(twin)
