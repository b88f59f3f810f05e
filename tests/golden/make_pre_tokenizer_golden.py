#!/usr/bin/env python3
"""Makes pre_tokenizers.json: the cuts of Hugging Face's tokenizers in texts, for the pre-tokenizers that GGUF files
name. Needs: pip install tokenizers

  make_pre_tokenizer_golden.py

llama.cpp's converter gives each family of models a name. This script uses the pre-tokenizer in the tokenizer.json of
that family. The JSON is {"NAME": {"nfc": BOOL, "cases": [[TEXT, [PIECE, ..]], ..]}, ..}, with pieces of the normalised
text."""
import json
import os

from tokenizers import normalizers, pre_tokenizers
from tokenizers import Regex

WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LLAMA3 = WORDS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + REST
QWEN2 = WORDS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + REST
SEED = WORDS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|" + REST
QWEN35 = WORDS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + REST
CASES = r"[^\r\n\p{L}\p{N}]?%s*%s+%s|[^\r\n\p{L}\p{N}]?%s+%s*%s|"
O200K = CASES % (UPPER, LOWER, WORDS + "?", UPPER, LOWER, WORDS + "?") + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + REST
TEKKEN = CASES % (UPPER, LOWER, "", UPPER, LOWER, "") + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + REST
NOT_HAN = "&&[^\\p{Han}]]"
KIMI = (r"\p{Han}+|" + CASES % (UPPER[:-1] + NOT_HAN, LOWER[:-1] + NOT_HAN, WORDS + "?", UPPER[:-1] + NOT_HAN, LOWER[:-1] + NOT_HAN, WORDS + "?") +
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + REST)
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"

CASED = (
    r"A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af}"
    r"\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}"
    r"\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}"
    r"\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}"
    r"\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}"
    r"\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}"
    r"\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}"
    r"\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}"
    r"\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}"
    r"\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}"
    r"\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}"
    r"\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}"
    r"\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}"
    r"\x{1e900}-\x{1e943}"
)
DEEPSEEK = ["[\r\n]", r"\s?[" + CASED + "]+", "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$",
            "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"]
DEEPSEEK_V3 = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
               r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|""" + REST]


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def gpt2():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def digits(individual):
    return pre_tokenizers.Digits(individual_digits=individual)


# name: (the pre-tokenizers one after the other, whether NFC comes before)
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
    "seed-coder": ([split(SEED)], False),
    "deepseek-r1-qwen": ([split(QWEN2)], False),
    "qwen35": ([split(QWEN35)], True),
    "gpt-4o": ([split(O200K)], False),
    "deepseek-llm": ([*map(split, DEEPSEEK), digits(True)], False),
    "deepseek-coder": ([*map(split, [DEEPSEEK[0], r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK[4]]), digits(True)], False),
    "deepseek-v3": ([*map(split, DEEPSEEK_V3)], False),
    "kimi-k2": ([split(KIMI)], False),
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
    """Returns the pieces, cut by offsets, since byte-level pre-tokenizers spell the texts of pieces differently."""
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
