#!/usr/bin/env python3
"""Makes pre_tokenizers.json: how Hugging Face's tokenizers cut texts, for the pre-tokenizers that GGUF files name. Needs:
pip install tokenizers

  make_pre_tokenizer_golden.py

Each name's is as the tokenizer.json of the family has it that llama.cpp's converter gave the name for. The JSON says
{"NAME": {"nfc": BOOL, "cases": [[TEXT, [PIECE, ..]], ..]}, ..}, pieces of the text as it is after normalization."""
import json
import os

from tokenizers import normalizers, pre_tokenizers
from tokenizers import Regex

WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LLAMA3 = WORDS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + REST
QWEN2 = WORDS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + REST
QWEN35 = WORDS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + REST
CASES = r"[^\r\n\p{L}\p{N}]?%s*%s+%s|[^\r\n\p{L}\p{N}]?%s+%s*%s|"
O200K = CASES % (UPPER, LOWER, WORDS + "?", UPPER, LOWER, WORDS + "?") + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + REST
TEKKEN = CASES % (UPPER, LOWER, "", UPPER, LOWER, "") + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + REST
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def gpt2():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def digits(individual):
    return pre_tokenizers.Digits(individual_digits=individual)


# name: (its cuts, NFC before)
KINDS = {
    "gpt-2": ([gpt2()], False),
    "mpt": ([gpt2()], True),
    "smollm": ([digits(True), gpt2()], False),
    "command-r": ([digits(True), gpt2()], True),
    "falcon": ([pre_tokenizers.Punctuation("contiguous"), gpt2(), digits(False), split("[0-9][0-9][0-9]")], False),
    "llama-bpe": ([split(LLAMA3)], False),
    "pixtral": ([split(LLAMA3)], False),
    "glm4": ([split(LLAMA3)], False),
    "qwen2": ([split(QWEN2)], True),
    "deepseek-r1-qwen": ([split(QWEN2)], False),
    "qwen35": ([split(QWEN35)], True),
    "gpt-4o": ([split(O200K)], False),
    "llama4": ([split(O200K)], False),
    "tekken": ([split(TEKKEN)], False),
    "bloom": ([split(BLOOM)], False),
}
TEXTS = [
    "Hello, World! I'm HERE; you'Re there, they'LL see... it's 1234567 o'clock.",
    "camelCase HTTPServer XMLHttpRequest iPhone McDonald's ÉCOLE École ǅungla",
    "  two spaces\n\n\n and\ttabs \r\n ends   \n",
    "if (x <= 3.14159e-10 && y != 0xFF) { return a[i]++ ? \"yes\" : 'no'; } // path/to/file\n/* ... */",
    "日本語のテキスト、中文文本。한국어 텍스트 العربية، हिन्दी। ไทย",
    "e\u0301te\u0301 nai\u0308ve q\u0323\u0307 \u1100\u1161\u11a8 ½ Ⅷ ² ٣٤٥ 12３４",
    "😀👩‍👩‍👧 ok🏳️‍🌈 — “quotes” … «x» $5.00 + 10% ^_^ `code` ~/.config|grep",
    "\u00a0nbsp\u2003em\u200bzero\ufeffbom end \u2028line",
    "'s 'S 't're've'm'll'd 'D'dd 'x",
    "(parens) a|b (s|t) .,!? ... 。，、",
]


def pieces_of(cuts, text):
    """Offsets, not texts: byte-level ones are spelled otherwise."""
    parts = [text]
    for cut in cuts:
        parts = [part[begin:end] for part in parts for _, (begin, end) in cut.pre_tokenize_str(part)]
    assert "".join(parts) == text, (text, parts)
    return parts


golden = {}
for name, (cuts, nfc) in KINDS.items():
    cases = []
    for text in TEXTS:
        text = normalizers.NFC().normalize_str(text) if nfc else text
        cases.append([text, pieces_of(cuts, text)])
    golden[name] = {"nfc": nfc, "cases": cases}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "pre_tokenizers.json"), "w", encoding="utf-8") as f:
    json.dump(golden, f, ensure_ascii=False, indent=1)
    f.write("\n")
