#!/usr/bin/env python3
"""Makes models/kquants.gguf, a model with one layer whose matrices have five formats that Quire only reads from files,
and kquants.json. The latter holds the log-probabilities of every token after a few prompts, by HF transformers in fp32
on the numbers that llama.cpp's Python package reads from the file. Needs: pip install torch transformers gguf"""
import json
import os
import random
import struct

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from gguf import quants
from transformers import LlamaConfig, LlamaForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
HIDDEN, HEADS, KV_HEADS, DIM, MLP, VOCAB = 256, 4, 2, 64, 256, 48
# name -> rows, columns, format
MATRICES = {"attn_q": (HEADS * DIM, HIDDEN, "Q4_K"), "attn_k": (KV_HEADS * DIM, HIDDEN, "Q5_0"), "attn_v": (KV_HEADS * DIM, HIDDEN, "Q6_K"),
            "attn_output": (HIDDEN, HEADS * DIM, "Q5_K"), "ffn_gate": (MLP, HIDDEN, "Q5_1"), "ffn_up": (MLP, HIDDEN, "Q4_K"),
            "ffn_down": (HIDDEN, MLP, "Q4_K")}
HF_NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
            "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
# numbers and bytes of a block, then offset: typical value of each float16 in the block
FORMATS = {"Q5_0": (32, 22, {0: 0.006}), "Q5_1": (32, 24, {0: 0.006, 2: -0.09}), "Q4_K": (256, 144, {0: 0.0003, 2: 0.0022}),
           "Q5_K": (256, 176, {0: 0.00015, 2: 0.0023}), "Q6_K": (256, 210, {208: 0.00004})}
PROMPTS = [[5, 6, 7], [9, 3], [4, 4, 4, 4, 8, 1, 30], list(range(20, 45))]


def random_blocks(rng, rows, cols, name):
    numbers, size, halves = FORMATS[name]
    out = bytearray()
    for _ in range(rows * cols // numbers):
        block = bytearray(rng.randbytes(size))
        for at, about in halves.items():
            block[at : at + 2] = struct.pack("<e", about * rng.uniform(0.7, 1.3))
        out += block
    return np.frombuffer(bytes(out), np.uint8).reshape(rows, -1)


def unpermute(weight, heads):
    """Reorders the rows of each head: GGUF puts the two dimensions of a rotated pair side by side, HF half a head apart."""
    return weight.reshape(heads, DIM // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)


def main():
    rng = random.Random(3)
    generator = np.random.default_rng(3)
    writer = gguf.GGUFWriter(os.path.join(HERE, "models", "kquants.gguf"), "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(1)
    writer.add_feed_forward_length(MLP)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_token_list([f"t{i}" for i in range(VOCAB)])
    config = LlamaConfig(hidden_size=HIDDEN, num_hidden_layers=1, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=DIM,
                         intermediate_size=MLP, vocab_size=VOCAB, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False)
    model = LlamaForCausalLM(config).float()
    state = model.state_dict()
    for name, hf in (("token_embd", "model.embed_tokens"), ("output", "lm_head")):
        numbers = generator.normal(0, 1, (VOCAB, HIDDEN)).astype(np.float32)
        writer.add_tensor(name + ".weight", numbers)
        state[hf + ".weight"] = torch.tensor(numbers)
    for name, hf in (("output_norm", "model.norm"), ("blk.0.attn_norm", "model.layers.0.input_layernorm"),
                     ("blk.0.ffn_norm", "model.layers.0.post_attention_layernorm")):
        norm = generator.uniform(0.05, 0.15, HIDDEN).astype(np.float32) if name == "output_norm" else np.ones(HIDDEN, np.float32)
        writer.add_tensor(name + ".weight", norm)
        state[hf + ".weight"] = torch.tensor(norm)
    for name, (rows, cols, form) in MATRICES.items():
        blocks = random_blocks(rng, rows, cols, form)
        writer.add_tensor(f"blk.0.{name}.weight", blocks, raw_dtype=Type[form])
        numbers = quants.dequantize(blocks, Type[form]).astype(np.float32)
        print(name, form, "mean", numbers.mean(), "spread", numbers.std())
        if name in ("attn_q", "attn_k"):
            numbers = unpermute(numbers, rows // DIM)
        state[f"model.layers.0.{HF_NAMES[name]}.weight"] = torch.tensor(numbers)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    model.load_state_dict(state)
    cases = []
    for prompt in PROMPTS:
        with torch.no_grad():
            logprobs = torch.log_softmax(model(torch.tensor([prompt])).logits[0, -1], -1)
        cases.append({"prompt": prompt, "logprobs": [round(x, 6) for x in logprobs.tolist()]})
        print(sorted(logprobs.tolist())[-4:])
    with open(os.path.join(HERE, "kquants.json"), "w") as f:
        json.dump({"cases": cases}, f)


main()
