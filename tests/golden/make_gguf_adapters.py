#!/usr/bin/env python3
"""Converts PEFT adapters of adapters/ to llama.cpp's format, adapters/NAME.gguf, in the order of rows that the base model
has in GGUF (make_gguf_twins.py). The adapters have the same numbers, so that the answers which make_adapter_golden.py
made are valid for them, too. Needs: pip install numpy gguf safetensors

  make_gguf_adapters.py [NAME...]"""
import json
import os
import re
import sys

import gguf
import numpy as np
from safetensors.numpy import load_file

from make_gguf_twins import ARCHITECTURES, FAMILIES, PERMUTED, first_of, permute

HERE = os.path.dirname(os.path.abspath(__file__))
ALPHA = 6.0  # the file's alpha for all matrices; the adapter's own factors are multiplied into B


def number_of(patterns, name, usual):
    for pattern, number in (patterns or {}).items():
        if re.match(rf"(.*\.)?({pattern})$", name):
            return number
    return usual


def split_experts(pairs, config, experts):
    """Turns PEFT's flattened matrices of all experts into stacks with a matrix for each expert. Gate and up matrices become separate."""
    out = {}
    for module, (a, b) in pairs.items():
        if not module.endswith((".experts", ".experts.base_layer")):
            out[module] = (a, b)
            continue
        both = {module.removesuffix(".base_layer") + end for end in ("", ".base_layer")}.issubset(pairs)
        is_in = module.endswith(".base_layer") or (not both and "down_proj" not in str(config["target_parameters"]))
        a = a.reshape(experts, -1, a.shape[1])
        b = b.reshape(b.shape[0], -1, experts).transpose(2, 0, 1)
        prefix = module.removesuffix(".base_layer")
        if is_in:
            gate, up = np.split(b, 2, axis=1)
            out[prefix + ".gate_proj"], out[prefix + ".up_proj"] = (a, gate), (a, up)
        else:
            out[prefix + ".down_proj"] = (a, b)
    return out


def read(name):
    """Returns ({module: (A, B)}, configuration) of a PEFT adapter. B is scaled so that llama.cpp's factor, ALPHA / rank, gives the same
    result as PEFT's own factor."""
    with open(f"{HERE}/adapters/{name}/adapter_config.json") as file:
        config = json.load(file)
    tensors = load_file(f"{HERE}/adapters/{name}/adapter_model.safetensors")
    pairs = {}
    for key, a in tensors.items():
        found = re.fullmatch(r"base_model\.model\.(.*)\.lora_(embedding_)?A(\.weight)?", key)
        if not found:
            continue
        module = found[1]
        b = tensors[key.replace("lora_A", "lora_B").replace("lora_embedding_A", "lora_embedding_B")].astype(np.float32)
        spoken = module
        if module.endswith(".experts.base_layer"):
            spoken = module.replace(".base_layer", ".gate_up_proj")
        elif module.endswith(".experts"):
            spoken = module + ".down_proj"
        elif module.endswith(".gate"):
            spoken = module + ".weight"
        rank = number_of(config["rank_pattern"], spoken, config["r"])
        scale = number_of(config["alpha_pattern"], spoken, config["lora_alpha"]) / rank
        pairs[module] = (a.astype(np.float32), b * scale * rank / ALPHA)
    return pairs, config


def make(name):
    pairs, adapter = read(name)
    with open(f"{HERE}/models/{adapter['base_model_name_or_path']}/config.json") as file:
        config = json.load(file)
    family = FAMILIES[config["model_type"]]
    names = gguf.get_tensor_name_map(ARCHITECTURES[family], config["num_hidden_layers"])
    writer = gguf.GGUFWriter(f"{HERE}/adapters/{name}.gguf", family)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, ALPHA)
    pairs = split_experts(pairs, adapter, first_of(config, "num_local_experts", "num_experts"))
    for module, (a, b) in pairs.items():
        target = names.get_name(module + ".weight", try_suffixes=(".weight",))
        if family in PERMUTED and ".attn_q" in target:
            b = permute(b, config["num_attention_heads"])
        if family in PERMUTED and ".attn_k" in target:
            b = permute(b, config["num_key_value_heads"])
        if target == "token_embd.weight":
            a = a.T
        writer.add_tensor(target + ".lora_a", np.ascontiguousarray(a, np.float32))
        writer.add_tensor(target + ".lora_b", np.ascontiguousarray(b, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    for adapter_name in sys.argv[1:] or ("linear_all", "phi3_fused", "qwen3moe_experts", "gemma2_norms"):
        make(adapter_name)
