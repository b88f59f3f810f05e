#!/usr/bin/env python3
"""Makes the expected greedy tokens and log-probabilities of the engine, with HF transformers in float32.
Needs: pip install torch transformers accelerate gguf safetensors.

  make_golden.py tiny [NAME...]  random models in models/ (safetensors; TINY lists them, with unusual sizes) and tiny_*.json; all of
                                 them, or the named ones
  make_golden.py real FILE.gguf  smollm2.json for the quickstart model, on the same dequantised weights

A prompt is used only if the logits of the best and the second best token differ by more than MARGIN at every step. In a
closer case rounding decides the order, so that no right answer exists."""
import json
import os
import random
import sys

import torch
from transformers import (ArceeConfig, AutoModelForCausalLM, AutoTokenizer, CwmConfig, Ernie4_5Config, Exaone4Config, Gemma2Config, Gemma3TextConfig,
                          Gemma4Config, Gemma4TextConfig, GemmaConfig, Glm4Config, GlmConfig, GraniteConfig, HunYuanDenseV1Config, LlamaConfig, Ministral3Config, MinistralConfig, MistralConfig, Olmo2Config, Olmo3Config, Phi3Config,
                          Qwen2Config, Qwen3Config, SeedOssConfig, SmolLM3Config)

from prompts import prompt_texts

HERE = os.path.dirname(os.path.abspath(__file__))
NUM_NEW = 64
SINGLE, BRAIN = ("mha", "swa"), ("gqa",)  # stored in fp32 and bf16; all others in fp16
MARGIN = 2e-3
CACHE_TOLERANCE = 1e-4  # largest difference between log-probabilities with a cache and without

TINY = {
    "mha": dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4, head_dim=12,
                intermediate_size=80, vocab_size=131, tie_word_embeddings=True),
    "gqa": dict(hidden_size=72, num_hidden_layers=3, num_attention_heads=9, num_key_value_heads=3, head_dim=8,
                intermediate_size=96, vocab_size=257, tie_word_embeddings=False, rope_theta=100000.0),
    "mqa": dict(hidden_size=40, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=1, head_dim=16,
                intermediate_size=61, vocab_size=97, tie_word_embeddings=False, rms_norm_eps=1e-6,
                rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                  original_max_position_embeddings=64)),
    "swa": dict(hidden_size=60, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, head_dim=10,
                intermediate_size=77, vocab_size=151, tie_word_embeddings=False, sliding_window=24),
    # The tokens of this model come from make_tiny_tokenizer.py.
    "linear": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                   intermediate_size=52, vocab_size=259, tie_word_embeddings=False, bos_token_id=256, eos_token_id=257,
                   rope_scaling=dict(rope_type="linear", factor=4.0)),
    # All layers but the first have a sliding window.
    "qwen2": dict(kind=Qwen2Config, hidden_size=56, num_hidden_layers=3, num_attention_heads=7, num_key_value_heads=1,
                  intermediate_size=88, vocab_size=139, tie_word_embeddings=False, use_sliding_window=True,
                  sliding_window=20, max_window_layers=1, rope_theta=1000000.0),
    "qwen25": dict(kind=Qwen2Config, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                   intermediate_size=72, vocab_size=163, tie_word_embeddings=True, rope_theta=1000000.0),
    "qwen3": dict(kind=Qwen3Config, hidden_size=48, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=3,
                  head_dim=20, intermediate_size=80, vocab_size=173, tie_word_embeddings=True, rope_theta=1000000.0),
    # All texts are shorter than original_max_position_embeddings: the short factors apply.
    "phi3": dict(kind=Phi3Config, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                 intermediate_size=72, vocab_size=149, tie_word_embeddings=True, sliding_window=24,
                 max_position_embeddings=16384, original_max_position_embeddings=4096,
                 rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.75,
                                      short_factor=[1.0, 1.1, 1.3, 1.7, 2.5, 4.0], long_factor=[1.0, 1.5, 3.0, 6.0, 9.0, 16.0])),
    # All prompts are longer than original_max_position_embeddings: the long factors apply from the first token on.
    "phi3long": dict(kind=Phi3Config, hidden_size=48, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=3,
                     intermediate_size=60, vocab_size=137, tie_word_embeddings=False, max_position_embeddings=2048,
                     original_max_position_embeddings=4, lengths=[7, 15, 16, 17, 31, 33, 64, 100, 150, 200],
                     rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.2, 1.4, 2.0],
                                          long_factor=[1.0, 1.7, 2.9, 5.0])),
    "granite": dict(kind=GraniteConfig, hidden_size=48, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
                    intermediate_size=80, vocab_size=157, tie_word_embeddings=True, embedding_multiplier=6.0,
                    attention_multiplier=0.21, residual_multiplier=0.4, logits_scaling=1.5),
    # The fourth layer has no rotary embedding.
    "smollm3": dict(kind=SmolLM3Config, hidden_size=40, num_hidden_layers=5, num_attention_heads=5, num_key_value_heads=1,
                    intermediate_size=56, vocab_size=143, tie_word_embeddings=True),
    "yarn": dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                 intermediate_size=72, vocab_size=167, tie_word_embeddings=False,
                 rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64)),
    "ministral": dict(kind=MinistralConfig, hidden_size=48, num_hidden_layers=3, num_attention_heads=4,
                      num_key_value_heads=2, head_dim=20, intermediate_size=72, vocab_size=163, tie_word_embeddings=False,
                      sliding_window=24, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                      rope_parameters=dict(rope_type="yarn", rope_theta=100000.0, factor=8.0, beta_fast=16.0, beta_slow=2.0,
                                           mscale=0.8, mscale_all_dim=1.2, truncate=False,
                                           original_max_position_embeddings=32)),
    "ministral3": dict(kind=Ministral3Config, hidden_size=48, num_hidden_layers=2, num_attention_heads=6,
                       num_key_value_heads=2, head_dim=16, intermediate_size=72, vocab_size=161, tie_word_embeddings=False,
                       rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=16.0, mscale=1.0, mscale_all_dim=1.0,
                                            llama_4_scaling_beta=0.3, original_max_position_embeddings=32)),
    "olmo2": dict(kind=Olmo2Config, hidden_size=60, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
                  intermediate_size=72, vocab_size=151, tie_word_embeddings=False, rope_theta=500000.0),
    "olmo3": dict(kind=Olmo3Config, hidden_size=48, num_hidden_layers=4, num_attention_heads=6, num_key_value_heads=6,
                  intermediate_size=64, vocab_size=139, tie_word_embeddings=False, sliding_window=24,
                  rope_parameters=dict(sliding_attention=dict(rope_type="default", rope_theta=500000.0),
                                       full_attention=dict(rope_type="yarn", rope_theta=500000.0, factor=8.0,
                                                           attention_factor=1.2, original_max_position_embeddings=64))),
    "gemma": dict(kind=GemmaConfig, hidden_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=1,
                  head_dim=16, intermediate_size=72, vocab_size=137),
    "gemma2": dict(kind=Gemma2Config, hidden_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                   head_dim=16, intermediate_size=80, vocab_size=157, sliding_window=24, query_pre_attn_scalar=10,
                   attn_logit_softcapping=5.0, final_logit_softcapping=12.0),
    "gemma3": dict(kind=Gemma3TextConfig, hidden_size=48, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=1,
                   head_dim=16, intermediate_size=72, vocab_size=149, sliding_window=20, query_pre_attn_scalar=12,
                   layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
                   rope_parameters=dict(sliding_attention=dict(rope_type="default", rope_theta=10000.0),
                                        full_attention=dict(rope_type="linear", rope_theta=1000000.0, factor=8.0))),
    # The structure of the small Gemma 4 models: per-layer embeddings of each token. The last layers share the keys of
    # earlier layers and have MLPs of twice the width.
    "gemma4": dict(kind=Gemma4TextConfig, hidden_size=32, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2,
                   head_dim=12, global_head_dim=16, intermediate_size=36, vocab_size=131, vocab_size_per_layer_input=131,
                   hidden_size_per_layer_input=10, sliding_window=20, num_kv_shared_layers=2, use_double_wide_mlp=True,
                   final_logit_softcapping=9.0,
                   layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention",
                                "sliding_attention", "full_attention"]),
    # The structure of the large Gemma 4 model: layers without a window use their keys as values, and have fewer KV heads.
    "gemma4large": dict(kind=Gemma4TextConfig, hidden_size=48, num_hidden_layers=4, num_attention_heads=6, num_key_value_heads=3,
                        head_dim=12, global_head_dim=24, num_global_key_value_heads=2, attention_k_eq_v=True,
                        intermediate_size=64, vocab_size=141, hidden_size_per_layer_input=0, sliding_window=20,
                        rope_parameters=dict(sliding_attention=dict(rope_type="default", rope_theta=10000.0),
                                             full_attention=dict(rope_type="proportional", partial_rotary_factor=0.5,
                                                                 rope_theta=500.0, factor=2.0)),
                        layer_types=["sliding_attention", "full_attention", "sliding_attention", "full_attention"]),
    # The text model of a multimodal Gemma 4, with the tensor names of such files.
    "gemma4whole": dict(kind=Gemma4Config, hidden_size=24, num_hidden_layers=3, num_attention_heads=3, num_key_value_heads=1,
                        head_dim=8, global_head_dim=16, intermediate_size=32, vocab_size=109, vocab_size_per_layer_input=109,
                        hidden_size_per_layer_input=6, sliding_window=20, num_kv_shared_layers=1,
                        layer_types=["full_attention", "sliding_attention", "full_attention"]),
    "ernie": dict(kind=Ernie4_5Config, hidden_size=40, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=1,
                  head_dim=16, intermediate_size=64, vocab_size=129),
    "glm4": dict(kind=Glm4Config, hidden_size=48, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
                 head_dim=16, intermediate_size=64, vocab_size=151, tie_word_embeddings=False),
    "glm": dict(kind=GlmConfig, hidden_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                head_dim=12, intermediate_size=56, vocab_size=131, tie_word_embeddings=False),
    "seedoss": dict(kind=SeedOssConfig, hidden_size=40, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
                    head_dim=12, intermediate_size=60, vocab_size=133, tie_word_embeddings=False,
                    rope_parameters=dict(rope_type="default", rope_theta=1000000.0)),
    "arcee": dict(kind=ArceeConfig, hidden_size=48, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=3, head_dim=12,
                  intermediate_size=68, vocab_size=141,
                  rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64)),
    # The second and fourth layer have neither a sliding window nor rotary embeddings.
    "exaone4": dict(kind=Exaone4Config, hidden_size=40, num_hidden_layers=4, num_attention_heads=5, num_key_value_heads=1, head_dim=16,
                    intermediate_size=56, vocab_size=147, sliding_window=20, sliding_window_pattern=2,
                    rope_parameters=dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
                                         high_freq_factor=4.0, original_max_position_embeddings=64)),
    # The structure of the smaller model: no windows, and rotary embeddings in all layers.
    "exaone4full": dict(kind=Exaone4Config, hidden_size=48, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=3,
                        head_dim=12, intermediate_size=64, vocab_size=151, sliding_window=None, tie_word_embeddings=True,
                        layer_types=["full_attention", "full_attention"]),
    "cwm": dict(kind=CwmConfig, hidden_size=40, num_hidden_layers=5, num_attention_heads=5, num_key_value_heads=1, head_dim=16,
                intermediate_size=56, vocab_size=155, sliding_window=20,
                rope_parameters=dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
                                     high_freq_factor=4.0, original_max_position_embeddings=64)),
    "hunyuan": dict(kind=HunYuanDenseV1Config, hidden_size=48, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
                    head_dim=16, intermediate_size=72, vocab_size=149, tie_word_embeddings=True,
                    rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=1.0, alpha=50.0)),
}
LENGTHS = [1, 2, 7, 15, 16, 17, 31, 33, 64, 100, 150, 200]  # prompt lengths in tokens
# HF initialises biases to 0 and norms to 1, which hides mistakes. This spread makes their values random.
SPREAD_OF_VECTORS = 0.5


@torch.no_grad()
def continue_greedily(model, ids):
    """Returns the tokens, their log-probabilities, and the smallest lead of the best logit over the second best."""
    past, feed, tokens, logprobs, margin = None, torch.tensor([ids]), [], [], float("inf")
    for _ in range(NUM_NEW):
        out = model(input_ids=feed, past_key_values=past, use_cache=True)
        past, logits = out.past_key_values, out.logits[0, -1].float()
        best = torch.topk(logits, 2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        token = best.indices[0].item()
        tokens.append(token)
        logprobs.append(round(torch.log_softmax(logits.double(), -1)[token].item(), 6))
        feed = torch.tensor([[token]])
    return tokens, logprobs, margin


@torch.no_grad()
def check_without_cache(model, ids, tokens, logprobs):
    """Checks that one pass without a cache gives the same result. HF's cache of a sliding window might drop too many tokens."""
    rows = torch.log_softmax(model(input_ids=torch.tensor([ids + tokens]), use_cache=False).logits[0].double(), -1)
    for i, (token, logprob) in enumerate(zip(tokens, logprobs)):
        row = rows[len(ids) - 1 + i]
        assert row.argmax().item() == token and abs(row[token].item() - logprob) < CACHE_TOLERANCE, f"token {i} of {len(ids)}"


def expectations(model, prompts):
    cases, dropped = [], 0
    for ids in prompts:
        tokens, logprobs, margin = continue_greedily(model, ids)
        if margin <= MARGIN:
            dropped += 1
            continue
        check_without_cache(model, ids, tokens, logprobs)
        cases.append(dict(prompt=ids, tokens=tokens, logprobs=logprobs))
        print(f"{len(ids)} tokens: margin {margin:.4f}", file=sys.stderr, flush=True)
    print(f"kept {len(cases)}, dropped {dropped} for near-ties", file=sys.stderr)
    return cases


def write(name, cases):
    with open(f"{HERE}/{name}.json", "w") as out:
        json.dump({"cases": cases}, out, separators=(",", ":"))
        out.write("\n")


@torch.no_grad()
def scatter_vectors(model):
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter += SPREAD_OF_VECTORS * torch.randn_like(parameter)
    for name, buffer in model.named_buffers():
        if name.endswith("layer_scalar"):
            buffer += SPREAD_OF_VECTORS * torch.rand_like(buffer)


def make_tiny(names):
    for name in names:
        shape = dict(TINY[name])
        torch.manual_seed(len(name) + shape["vocab_size"])
        kind = shape.pop("kind", MistralConfig if "sliding_window" in shape else LlamaConfig)
        lengths = shape.pop("lengths", LENGTHS)
        usual = dict(max_position_embeddings=2048, initializer_range=0.35, bos_token_id=0, eos_token_id=1)
        if (kind().get_text_config().pad_token_id or 0) >= shape["vocab_size"]:
            usual["pad_token_id"] = 0
        config = kind(**{**usual, **shape}) if kind is not Gemma4Config else kind(text_config={**usual, **shape})
        model = AutoModelForCausalLM.from_config(config).eval()
        if kind not in (LlamaConfig, MistralConfig):
            scatter_vectors(model)
        directory = f"{HERE}/models/{name}"
        dtype = torch.bfloat16 if name in BRAIN else torch.float32 if name in SINGLE else torch.float16
        model.to(dtype).save_pretrained(directory, max_shard_size="40KB" if name == "mqa" else "1GB")
        # The model is loaded again, because a cast to float16 rounds the rotary frequencies, too.
        # "eager" is HF's simplest implementation of sliding windows and of capped logits.
        eager = dict(attn_implementation="eager") if "sliding_window" in shape or kind is Gemma2Config else {}
        model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, **eager).eval()
        rng = random.Random(name)
        prompts = [[rng.randrange(2, shape["vocab_size"]) for _ in range(n)] for n in lengths for _ in range(2)]
        write(f"tiny_{name}", expectations(model, prompts))


def make_real(path):
    load = dict(gguf_file=os.path.basename(path))
    tokenizer = AutoTokenizer.from_pretrained(os.path.dirname(path), **load)
    model = AutoModelForCausalLM.from_pretrained(os.path.dirname(path), dtype=torch.float32, **load).eval()
    prompts = [tokenizer(text, add_special_tokens=False).input_ids[:2000] for text in prompt_texts()]
    prompts.append(prompts[0][:1])
    write("smollm2", expectations(model, prompts))


if __name__ == "__main__":
    if sys.argv[1] == "tiny":
        make_tiny(sys.argv[2:] or TINY)
    else:
        make_real(os.path.abspath(sys.argv[2]))
