#!/usr/bin/env python3
"""Converts encoders of models/NAME to models/NAME.gguf as llama.cpp's converter does. The weights have the same numbers, so that the
cases in encoders.json, which make_encoder_golden.py made from the directories, are valid for the files, too. Matrices are float16, vectors
float32. RoBERTa's table of positions loses the rows that no position has. Needs: pip install numpy gguf safetensors

  make_encoder_gguf.py [NAME...]"""
import json
import os
import sys

import gguf
import numpy as np
from safetensors.numpy import load_file

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
MARK = "\u2581"  # begins a word in GGUF's vocabularies of WordPiece
MEAN, CLS = 1, 2  # llama.cpp's pooling types
TWINS = {"bert": ("bert", MEAN), "xlmr": ("bert", CLS), "nomicbert": ("nomic-bert", MEAN), "jinabert": ("jina-bert-v2", MEAN),
         "jinav3": ("jina-bert-v3", MEAN)}
OF_LAYER = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v", "attention.output.dense": "attn_output",
            "attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
            "attn.Wqkv": "attn_qkv", "attn.out_proj": "attn_output", "norm1": "attn_output_norm", "norm2": "layer_output_norm", "mlp.fc11": "ffn_up",
            "mlp.fc12": "ffn_gate", "mixer.Wqkv": "attn_qkv", "mixer.out_proj": "attn_output", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down", "mlp.wo": "ffn_down", "mlp.layernorm": "layer_output_norm"}
OF_MODEL = {"embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd", "embeddings.token_type_embeddings": "token_types",
            "embeddings.LayerNorm": "token_embd_norm", "emb_ln": "token_embd_norm"}


def first_of(config, *names):
    return next(config[name] for name in names if config.get(name) is not None)


def add_word_piece(writer, tokenizer):
    special = {token["content"] for token in tokenizer["added_tokens"]}
    tokens = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    writer.add_tokenizer_model("bert")
    writer.add_token_list([token if token in special else token[2:] if token.startswith("##") else MARK + token for token in tokens])
    writer.add_token_types([gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token in tokens])
    for add, token in ((writer.add_unk_token_id, "[UNK]"), (writer.add_bos_token_id, "[CLS]"), (writer.add_sep_token_id, "[SEP]"),
                       (writer.add_pad_token_id, "[PAD]"), (writer.add_mask_token_id, "[MASK]")):
        add(tokens.index(token))


def add_unigram(writer, tokenizer):
    special = {token["content"] for token in tokenizer["added_tokens"]}
    pieces = tokenizer["model"]["vocab"]
    kinds = [gguf.TokenType.UNKNOWN if token == "<unk>" else gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token, _ in pieces]
    writer.add_tokenizer_model("t5")
    writer.add_token_list([token for token, _ in pieces])
    writer.add_token_scores([score for _, score in pieces])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(3)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(True)
    writer.add_add_space_prefix(True)


def named(name):
    """Returns GGUF's name of a tensor; None if the file lacks it."""
    stem, _, end = name.rpartition(".")
    if stem in OF_MODEL:
        return f"{OF_MODEL[stem]}.{end}"
    parts = stem.split(".")
    if parts[0] != "encoder":
        return None
    return f"blk.{parts[2]}.{OF_LAYER['.'.join(parts[3:])]}.{end}"


def convert(name):
    family, pooling = TWINS[name]
    directory = f"{MODELS}/{name}"
    with open(f"{directory}/config.json") as f:
        config = json.load(f)
    with open(f"{directory}/tokenizer.json") as f:
        tokenizer = json.load(f)
    writer = gguf.GGUFWriter(f"{MODELS}/{name}.gguf", family)
    hidden, heads = first_of(config, "hidden_size", "n_embd"), first_of(config, "num_attention_heads", "n_head")
    dropped = config["pad_token_id"] + 1 if config["model_type"] == "xlm-roberta" else 0
    writer.add_context_length(first_of(config, "max_position_embeddings", "n_positions") - dropped)
    writer.add_embedding_length(hidden)
    writer.add_block_count(first_of(config, "num_hidden_layers", "n_layer"))
    writer.add_feed_forward_length(first_of(config, "intermediate_size", "n_inner"))
    writer.add_head_count(heads)
    writer.add_layer_norm_eps(first_of(config, "layer_norm_eps", "layer_norm_epsilon"))
    writer.add_causal_attention(False)
    writer.add_uint32(f"{family}.pooling_type", pooling)
    writer.add_token_type_count(config["type_vocab_size"])
    if family == "nomic-bert":
        writer.add_rope_freq_base(config["rotary_emb_base"])
    if family == "jina-bert-v3":
        writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    (add_word_piece if tokenizer["model"]["type"] == "WordPiece" else add_unigram)(writer, tokenizer)
    for tensor, numbers in load_file(f"{directory}/model.safetensors").items():
        if tensor.endswith("gated_layers.weight"):
            layer = tensor.split(".")[2]
            for part, half in zip(("ffn_gate", "ffn_up"), np.split(numbers, 2)):
                writer.add_tensor(f"blk.{layer}.{part}.weight", half)
            continue
        if tensor.endswith("position_embeddings.weight"):
            numbers = numbers[dropped:]
        wanted = named(tensor)
        if wanted is not None:
            writer.add_tensor(wanted, numbers if numbers.ndim == 2 else numbers.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(name)


if __name__ == "__main__":
    for wanted in sys.argv[1:] or TWINS:
        convert(wanted)
