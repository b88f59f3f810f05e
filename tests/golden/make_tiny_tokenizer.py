#!/usr/bin/env python3
"""Gives the random models models/gqa (257 tokens) and models/linear (259) a tokenizer with one token per byte, and
control tokens. The tokenizer of linear puts "<|begin|>" before every prompt and has "<tool>", which is no control
token. Needs: pip install tokenizers"""
import json
import os

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
TURN = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"


def make(name, control_tokens, config):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    t = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control_tokens])
    if "bos_token" in config:
        t.add_tokens([AddedToken("<tool>", special=False, normalized=False)])
        bos = config["bos_token"]
        t.post_processor = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, t.token_to_id(bos))])
    t.save(os.path.join(MODELS, name, "tokenizer.json"), pretty=False)
    with open(os.path.join(MODELS, name, "tokenizer_config.json"), "w") as out:
        json.dump(config, out)
        out.write("\n")


make("gqa", ["<|end|>"], {"eos_token": "<|end|>", "chat_template": TURN})
make("linear", ["<|begin|>", "<|end|>"],
     {"bos_token": "<|begin|>", "eos_token": "<|end|>", "chat_template": "{{ bos_token }}" + TURN})
