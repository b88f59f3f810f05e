#!/usr/bin/env python3
"""Gives the random model models/gqa (257 tokens) a tokenizer: one token a byte, and "<|end|>". Needs: pip install tokenizers"""
import json
import os

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

directory = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models", "gqa")
alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
t = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
t.add_special_tokens([AddedToken("<|end|>", special=True, normalized=False)])
t.save(os.path.join(directory, "tokenizer.json"), pretty=False)
template = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
with open(os.path.join(directory, "tokenizer_config.json"), "w") as out:
    json.dump({"eos_token": "<|end|>", "chat_template": template}, out)
    out.write("\n")
