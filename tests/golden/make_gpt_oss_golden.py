#!/usr/bin/env python3
"""Makes a random gpt-oss in three forms with the same numbers, and the continuations of its prompts by HF transformers
in float32 (tiny_gptoss.json). The forms are models/gptoss (safetensors in float16), models/gptoss.mxfp4 (experts in
MXFP4, in the layout of the published models) and models/gptoss.gguf (experts in MXFP4, in llama.cpp's layout). Needs:
pip install torch transformers accelerate safetensors gguf

  make_gpt_oss_golden.py"""
import json
import os
import random
import shutil

import gguf
import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM, GptOssConfig

from make_golden import HERE, LENGTHS, write
from make_mixture_golden import expectations, spread_out

SHAPE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16, intermediate_size=64,
             vocab_size=131, num_local_experts=4, num_experts_per_tok=2, sliding_window=24, max_position_embeddings=2048,
             rope_parameters=dict(rope_type="yarn", rope_theta=150000.0, factor=8.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                                  original_max_position_embeddings=64),
             bos_token_id=0, eos_token_id=1, pad_token_id=None)
PLAIN, PACKED, GGUF = (f"{HERE}/models/gptoss{end}" for end in ("", ".mxfp4", ".gguf"))
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def to_mxfp4(weight):
    """Quantises numbers [.., columns]. Returns the codes [.., blocks, 32] and the exponent of each block plus 127."""
    blocks = weight.reshape(*weight.shape[:-1], -1, 32).astype(np.float64)
    exponent = np.floor(np.log2(np.abs(blocks).max(-1, keepdims=True) / 6)) + 1
    scaled = blocks / 2.0**exponent
    code = np.abs(np.abs(scaled)[..., None] - FP4).argmin(-1) | np.where(scaled < 0, 8, 0)
    return code.astype(np.uint8), (exponent[..., 0] + 127).astype(np.uint8)


def numbers_of(code, scale):
    values = np.where(code & 8, -1, 1) * FP4[code & 7] * 2.0**(scale[..., None].astype(np.float64) - 127)
    return values.reshape(*code.shape[:-2], -1)


@torch.no_grad()
def round_experts(model):
    """Rounds the experts' weights to MXFP4. Returns {name: (codes, scales)} of the transposed matrices, in which each row has the weights
    of one output."""
    packed = {}
    for name, parameter in model.named_parameters():
        if name.endswith(("gate_up_proj", "down_proj")):
            packed[name] = to_mxfp4(parameter.numpy().swapaxes(1, 2))
            parameter.copy_(torch.from_numpy(numbers_of(*packed[name]).swapaxes(1, 2).copy()))
    return packed


def write_packed(packed):
    """Writes the layout of the published models: two neighbours share a byte, and the scales are a separate tensor."""
    os.makedirs(PACKED, exist_ok=True)
    tensors = {name: t for name, t in load_file(f"{PLAIN}/model.safetensors").items() if name not in packed}
    for name, (code, scale) in packed.items():
        tensors[f"{name}_blocks"] = np.ascontiguousarray(code[..., 0::2] | code[..., 1::2] << 4)
        tensors[f"{name}_scales"] = np.ascontiguousarray(scale)
    save_file(tensors, f"{PACKED}/model.safetensors", metadata={"format": "pt"})
    with open(f"{PLAIN}/config.json") as f:
        config = json.load(f)
    config["quantization_config"] = dict(quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "lm_head"])
    with open(f"{PACKED}/config.json", "w") as f:
        json.dump(config, f, indent=2)
    shutil.copy(f"{PLAIN}/generation_config.json", PACKED)


def add_packed(writer, name, code, scale):
    """Adds a tensor in llama.cpp's layout: per block one byte of scale, then 16 bytes; byte i holds the codes i and i + 16."""
    blocks = np.concatenate([scale[..., None], code[..., :16] | code[..., 16:] << 4], -1)
    writer.add_tensor(name, np.ascontiguousarray(blocks.reshape(*code.shape[:-2], -1)), raw_dtype=gguf.GGMLQuantizationType.MXFP4)


def write_gguf(packed):
    writer = gguf.GGUFWriter(GGUF, "gpt-oss")
    rope = SHAPE["rope_parameters"]
    writer.add_context_length(SHAPE["max_position_embeddings"])
    writer.add_embedding_length(SHAPE["hidden_size"])
    writer.add_block_count(SHAPE["num_hidden_layers"])
    writer.add_feed_forward_length(SHAPE["intermediate_size"])
    writer.add_expert_feed_forward_length(SHAPE["intermediate_size"])
    writer.add_expert_count(SHAPE["num_local_experts"])
    writer.add_expert_used_count(SHAPE["num_experts_per_tok"])
    writer.add_head_count(SHAPE["num_attention_heads"])
    writer.add_head_count_kv(SHAPE["num_key_value_heads"])
    writer.add_key_length(SHAPE["head_dim"])
    writer.add_value_length(SHAPE["head_dim"])
    writer.add_sliding_window(SHAPE["sliding_window"])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    writer.add_token_list([f"t{i}" for i in range(SHAPE["vocab_size"])])
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT_OSS, SHAPE["num_hidden_layers"])
    for name, weight in load_file(f"{PLAIN}/model.safetensors").items():
        layer = f"blk.{name.split('.')[2]}" if ".layers." in name else ""
        if name.endswith("gate_up_proj"):
            code, scale = packed[name]
            add_packed(writer, f"{layer}.ffn_gate_exps.weight", code[:, 0::2], scale[:, 0::2])
            add_packed(writer, f"{layer}.ffn_up_exps.weight", code[:, 1::2], scale[:, 1::2])
        elif name.endswith("down_proj"):
            add_packed(writer, f"{layer}.ffn_down_exps.weight", *packed[name])
        elif name.endswith("gate_up_proj_bias"):
            writer.add_tensor(f"{layer}.ffn_gate_exps.bias", np.ascontiguousarray(weight[:, 0::2], np.float32))
            writer.add_tensor(f"{layer}.ffn_up_exps.bias", np.ascontiguousarray(weight[:, 1::2], np.float32))
        elif name.endswith("down_proj_bias"):
            writer.add_tensor(f"{layer}.ffn_down_exps.bias", weight.astype(np.float32))
        elif name.endswith("sinks"):
            writer.add_tensor(f"{layer}.attn_sinks.weight", weight.astype(np.float32))
        else:
            target = names.get_name(name, try_suffixes=(".weight", ".bias"))
            writer.add_tensor(target, weight.astype(np.float32) if weight.ndim == 1 or ".ffn_gate_inp" in target else weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_config(GptOssConfig(**SHAPE)).eval()
    spread_out(model)
    packed = round_experts(model)
    model.to(torch.float16).save_pretrained(PLAIN)
    write_packed(packed)
    write_gguf(packed)
    eager = dict(attn_implementation="eager", experts_implementation="eager")
    model = AutoModelForCausalLM.from_pretrained(PLAIN, dtype=torch.float32, **eager).eval()
    rng = random.Random("gptoss")
    prompts = [[rng.randrange(2, SHAPE["vocab_size"]) for _ in range(n)] for n in LENGTHS for _ in range(2)]
    write("tiny_gptoss", expectations(model, prompts))


main()
