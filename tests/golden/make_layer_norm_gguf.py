#!/usr/bin/env python3
"""Converts models/NAME to models/NAME.gguf as llama.cpp's converter does, for families with LayerNorm. A fused matrix
has all queries first, then all keys, then all values. GPT-2's matrices are transposed. The weights have the same
numbers, so that tiny_NAME.json, which make_layer_norm_golden.py made from the directory, is valid for the file, too.
Needs: pip install numpy gguf safetensors

  make_layer_norm_gguf.py [NAME...]"""
import json
import os
import sys

import gguf
import numpy as np
from safetensors.numpy import load_file

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
ARCHITECTURES = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}

TWINS = ("bloom", "mpt", "neox", "gpt2", "falcon_new", "starcoder2", "cohere", "cohere2", "phi", "stablelm", "stablelm_parallel")
FAMILIES = {"gpt_neox": "gptneox", "cohere": "command-r", "phi": "phi2"}  # families with a different name in GGUF
FUSED_BY_HEAD = ("bloom", "gptneox", "falcon")


def first_of(config, *names):
    return next(config[name] for name in names if config.get(name) is not None)


def in_order(weight, kv_heads, heads, dim):
    groups = weight.reshape(kv_heads, heads // kv_heads + 2, dim, -1)
    parts = (groups[:, :-2], groups[:, -2], groups[:, -1])
    return np.concatenate([part.reshape(-1, groups.shape[-1]) for part in parts]).reshape(weight.shape)


def add_sizes(writer, family, config):
    hidden, heads = first_of(config, "hidden_size", "d_model", "n_embd"), first_of(config, "num_attention_heads", "n_head", "n_heads")
    kv_heads = first_of({**config, "heads": heads}, "num_kv_heads", "num_key_value_heads", "heads")
    layers = first_of(config, "num_hidden_layers", "n_layer", "n_layers")
    writer.add_context_length(first_of({**config, "usual": 2048}, "max_position_embeddings", "n_positions", "max_seq_len", "usual"))
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(first_of({**config, "usual": 4 * hidden}, "intermediate_size", "n_inner", "ffn_hidden_size", "usual"))
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_eps(first_of(config, "layer_norm_epsilon", "layer_norm_eps", "norm_epsilon"))
    writer.add_token_list([f"t{i}" for i in range(config["vocab_size"])])
    if "rope_parameters" in config:
        rope = config["rope_parameters"]
        writer.add_rope_freq_base(rope["rope_theta"])
        writer.add_rope_dimension_count(int(hidden // heads * rope.get("partial_rotary_factor", 1)))
    if family in ("command-r", "cohere2"):
        writer.add_logit_scale(config["logit_scale"])
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    if family == "cohere2":
        writer.add_sliding_window(config["sliding_window"])
    if family == "stablelm":
        writer.add_parallel_residual(config["use_parallel_residual"])
    if family == "gptneox":
        writer.add_parallel_residual(config["use_parallel_residual"])
    if family == "mpt":
        writer.add_max_alibi_bias(float(config["attn_config"]["alibi_bias_max"]))
    if family == "starcoder2":
        writer.add_sliding_window(config["sliding_window"])
    return hidden, heads, kv_heads, layers


def make(name):
    with open(f"{MODELS}/{name}/config.json") as f:
        config = json.load(f)
    family = FAMILIES.get(config["model_type"], config["model_type"])
    writer = gguf.GGUFWriter(f"{MODELS}/{name}.gguf", family)
    hidden, heads, kv_heads, layers = add_sizes(writer, family, config)
    names = gguf.get_tensor_name_map(ARCHITECTURES[family], layers)
    for tensor, weight in load_file(f"{MODELS}/{name}/model.safetensors").items():
        suffixes = (".weight", ".bias")  # gguf's table has some names only without the prefix "transformer."
        target = names.get_name(tensor, suffixes) or names.get_name(tensor.removeprefix("transformer."), suffixes)
        if family in FUSED_BY_HEAD and ".attn_qkv" in target:
            weight = in_order(weight, kv_heads, heads, hidden // heads)
        if family == "gpt2" and target.startswith("blk.") and weight.ndim == 2:
            weight = np.ascontiguousarray(weight.T)
        writer.add_tensor(target, weight.astype(np.float32) if weight.ndim == 1 else weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


for twin in sys.argv[1:] or TWINS:
    make(twin)
