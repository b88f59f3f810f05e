#!/usr/bin/env python3
"""Makes random models of the families with LayerNorm (models/NAME, safetensors in float16), and the continuations of
their prompts by HF transformers in float32 (tiny_NAME.json). Uses functions of make_golden.py. Needs: pip install torch
transformers accelerate safetensors

  make_layer_norm_golden.py [NAME...]"""
import random
import sys

import torch
import transformers
from transformers import AutoModelForCausalLM

from make_golden import HERE, expectations, scatter_vectors, write

# The numbers of heads and columns are unusual on purpose. Tables of learned positions just hold the longest prompt and its answer.
POSITIONS = 264
TINY = {
    # Five heads: ALiBi takes the slopes of four heads, and one slope between them.
    "bloom": dict(kind="Bloom", hidden_size=40, n_layer=3, n_head=5, vocab_size=139),
    "mpt": dict(kind="Mpt", d_model=48, n_layers=2, n_heads=6, max_seq_len=2048, vocab_size=151),
    "neox": dict(kind="GPTNeoX", hidden_size=48, num_hidden_layers=3, num_attention_heads=3, intermediate_size=77, vocab_size=127,
                 max_position_embeddings=2048),
    "neox_serial": dict(kind="GPTNeoX", hidden_size=40, num_hidden_layers=2, num_attention_heads=5, intermediate_size=96,
                        vocab_size=131, max_position_embeddings=2048, use_parallel_residual=False, attention_bias=False,
                        tie_word_embeddings=True, rope_parameters=dict(rope_theta=50000.0, partial_rotary_factor=0.5,
                                                                       rope_type="default")),
    "gpt2": dict(kind="GPT2", n_embd=40, n_layer=2, n_head=4, n_inner=100, vocab_size=137, n_positions=POSITIONS),
    "opt": dict(kind="OPT", hidden_size=48, num_hidden_layers=2, num_attention_heads=6, ffn_dim=72, vocab_size=149,
                max_position_embeddings=POSITIONS, word_embed_proj_dim=48),
    "falcon": dict(kind="Falcon", hidden_size=40, num_hidden_layers=2, num_attention_heads=5, vocab_size=143),
    "falcon_new": dict(kind="Falcon", hidden_size=48, num_hidden_layers=2, num_attention_heads=6, num_kv_heads=2, vocab_size=141,
                       new_decoder_architecture=True, bias=True, ffn_hidden_size=100),
    "falcon_serial": dict(kind="Falcon", hidden_size=40, num_hidden_layers=2, num_attention_heads=5, vocab_size=133,
                          multi_query=False, parallel_attn=False, bias=True, ffn_hidden_size=90),
    "starcoder2": dict(kind="Starcoder2", hidden_size=48, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
                       intermediate_size=70, vocab_size=157, sliding_window=24),
    "cohere": dict(kind="Cohere", hidden_size=48, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=3,
                   intermediate_size=80, vocab_size=159, attention_bias=True, logit_scale=0.75),
    # Layers 0 to 2 have a sliding window and rotary embeddings; layer 3 has neither.
    "cohere2": dict(kind="Cohere2", hidden_size=40, num_hidden_layers=4, num_attention_heads=5, num_key_value_heads=1,
                    intermediate_size=72, vocab_size=155, sliding_window=20, logit_scale=0.5),
    "phi": dict(kind="Phi", hidden_size=48, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=3,
                intermediate_size=100, vocab_size=147),
    "stablelm": dict(kind="StableLm", hidden_size=48, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=3,
                     intermediate_size=70, vocab_size=153, use_qkv_bias=True),
    "stablelm_parallel": dict(kind="StableLm", hidden_size=48, num_hidden_layers=2, num_attention_heads=6,
                              num_key_value_heads=2, intermediate_size=70, vocab_size=161, use_parallel_residual=True,
                              rope_parameters=dict(rope_theta=10000.0, partial_rotary_factor=0.5, rope_type="default")),
}


def spread_out(model):
    """Sets weights so far from zero that every layer has an effect, and random norms and biases."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                torch.nn.init.normal_(parameter, std=0.3)
    scatter_vectors(model)


def make(name):
    shape = dict(TINY[name])
    torch.manual_seed(len(name) + shape["vocab_size"])
    kind = shape.pop("kind")
    config = getattr(transformers, f"{kind}Config")(**{**dict(bos_token_id=0, eos_token_id=1, pad_token_id=None), **shape})
    model = AutoModelForCausalLM.from_config(config).eval()
    spread_out(model)
    directory = f"{HERE}/models/{name}"
    model.to(torch.float16).save_pretrained(directory)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
    rng = random.Random(name)
    lengths = [1, 2, 7, 15, 16, 17, 31, 33, 64, 100, 150, 200]
    prompts = [[rng.randrange(2, shape["vocab_size"]) for _ in range(n)] for n in lengths for _ in range(2)]
    write(f"tiny_{name}", expectations(model, prompts))


if __name__ == "__main__":
    for wanted in sys.argv[1:] or TINY:
        make(wanted)
