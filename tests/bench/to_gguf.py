#!/usr/bin/env python3
"""Converts an HF directory of the Llama architecture into a BF16 GGUF file, so that llama.cpp measures the same weights (its
llama-quantize makes other formats). The tokenizer comes from another GGUF file with the same vocabulary.

to_gguf.py DIR TOKENIZER.gguf OUT.gguf       needs gguf, torch, safetensors"""
import glob
import json
import os
import sys

import gguf
import torch
from safetensors import safe_open

LAYER = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def name_of(tensor):
    stem = tensor.removesuffix(".weight")
    if stem in WHOLE:
        return WHOLE[stem] + ".weight"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{LAYER[part]}.weight"


def neighbours(weight, heads):
    """Reorders the rows of each head. GGUF's rotary embedding rotates dimension 2i with 2i + 1 of
    the same head; HF's rotates dimension i with i + half."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def main():
    folder, tokenizer, out = sys.argv[1:]
    with open(os.path.join(folder, "config.json")) as f:
        c = json.load(f)
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_embedding_length(c["hidden_size"])
    writer.add_block_count(c["num_hidden_layers"])
    writer.add_feed_forward_length(c["intermediate_size"])
    writer.add_head_count(c["num_attention_heads"])
    writer.add_head_count_kv(c["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    writer.add_rope_freq_base(c["rope_theta"])
    writer.add_rope_dimension_count(c["hidden_size"] // c["num_attention_heads"])
    writer.add_vocab_size(c["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    for key, field in gguf.GGUFReader(tokenizer).fields.items():
        if key.startswith("tokenizer."):
            kind = field.types[0]
            writer.add_key_value(key, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        with safe_open(path, "pt") as f:
            for tensor in f.keys():
                weight = f.get_tensor(tensor)
                if tensor.endswith("q_proj.weight"):
                    weight = neighbours(weight, c["num_attention_heads"])
                if tensor.endswith("k_proj.weight"):
                    weight = neighbours(weight, c["num_key_value_heads"])
                if weight.dim() == 1:
                    writer.add_tensor(name_of(tensor), weight.float().numpy())
                else:
                    rows = weight.to(torch.bfloat16).contiguous().view(torch.uint8).numpy()  # [rows, 2 * columns] bytes
                    writer.add_tensor(name_of(tensor), rows, raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file(progress=False)
    writer.close()


main()
