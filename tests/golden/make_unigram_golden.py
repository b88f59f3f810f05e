#!/usr/bin/env python3
"""Makes tokenizers/{unigram,pre,sp}_*: Unigram models, the steps before and after the model of a tokenizer.json, and
SentencePiece models as tokenizer.model files. Each folder has the results of HF tokenizers or sentencepiece on texts.
Needs: pip install tokenizers sentencepiece jinja2 protobuf

  make_unigram_golden.py          the small models, for the tests

compare_tokenizers.py makes the same kinds with larger vocabularies and many more texts. Each folder has cases.json:
{"encode": [[TEXT, [TOKEN, ..]], ..], "decode": [[[TOKEN, ..], TEXT without control tokens, TEXT], ..]}."""
import base64
import io
import json
import os
import random
import struct
import unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from make_text_golden import ASSIGNED, DROPS, FROM_MARKS, HERE, MARK, PIECES, QWEN2, SPECIALS, TO_MARKS, hostile, texts
from prompts import SENTENCES, prompt_texts

CORPUS = prompt_texts() + ["hello world the a an 'll n't return 2024 100 000 ﬁne ½ café"] * 20
# The characters that the tests' small charsmap changes: ligatures, fractions, full-width letters, blanks, controls and accents.
RULES = {chr(c): unicodedata.normalize("NFKC", chr(c)) for c in [*range(0xff01, 0xff5f), 0xfb00, 0xfb01, 0xfb02, 0xbd, 0xbc, 0x2167, 0xb2, 0xb3]}
RULES.update({blank: " " for blank in "\t\n\r\u00a0\u2003\u3000\u2028\u200b\ufeff"})
RULES.update({chr(c): "" for c in [*range(1, 9), 0x7f]})
RULES.update({"e\u0301": "é", "u\u0308": "ü", "ｶﾞ": "ガ", "ab\u0301": "<ab>", "\ufdfa": "صلى الله عليه وسلم"})


def rules_file(folder):
    path = os.path.join(folder, "rules.tsv")
    with open(path, "w") as out:
        for source, target in RULES.items():
            out.write(" ".join(f"{ord(c):X}" for c in source) + "\t" + " ".join(f"{ord(c):X}" for c in target) + "\n")
    return path


def train(size, folder, full, **options):
    """Trains a SentencePiece model and returns it serialised. full: with SentencePiece's default charsmap."""
    model = io.BytesIO()
    if options.pop("normalizes", True):
        options.update(dict(normalization_rule_name="nmt_nfkc") if full else dict(normalization_rule_tsv=rules_file(folder)))
    else:
        options.update(normalization_rule_name="identity")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=model, vocab_size=size + 300 * options.get("byte_fallback", False), hard_vocab_limit=False, num_threads=1, minloglevel=2,
        max_sentence_length=100_000, **options)
    if os.path.exists(os.path.join(folder, "rules.tsv")):
        os.remove(os.path.join(folder, "rules.tsv"))
    return model.getvalue()


def pieces_and_charsmap(model):
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    return [(piece.piece, piece.score) for piece in proto.pieces], proto.normalizer_spec.precompiled_charsmap


UNIGRAM = {  # name: normalizer (a function of the charsmap), pre-tokenizer, decoder, byte_fallback
    # The steps of T5 and XLM-R.
    "unigram_t5": (lambda charsmap: normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Strip(left=False, right=True),
                                                         normalizers.Replace(Regex(" {2,}"), MARK)]),
                   pre_tokenizers.Metaspace(prepend_scheme="always", split=True), decoders.Metaspace(prepend_scheme="always"), False),
    "unigram_words": (lambda charsmap: normalizers.Precompiled(charsmap),
                      pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]),
                      decoders.Metaspace(prepend_scheme="always"), False),
    # The steps of ALBERT.
    "unigram_albert": (lambda charsmap: normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(),
                                                             normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Precompiled(charsmap),
                                                             normalizers.Replace(Regex(" {2,}"), " ")]),
                       pre_tokenizers.Metaspace(prepend_scheme="always", split=False), decoders.Metaspace(prepend_scheme="always"), False),
    # No pre-tokenizer: whole texts. Unknown characters become bytes.
    "unigram_bytes": (lambda charsmap: normalizers.Sequence([normalizers.Prepend(MARK), TO_MARKS]), None,
                      decoders.Sequence([*FROM_MARKS, DROPS]), True),
    "unigram_nmt": (lambda charsmap: normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Strip()]),
                    pre_tokenizers.Sequence([pre_tokenizers.Punctuation("isolated"), pre_tokenizers.Metaspace(prepend_scheme="never", split=True),
                                             pre_tokenizers.Digits(individual_digits=True)]),
                    decoders.Metaspace(prepend_scheme="never"), False),
}


def make_unigram(name, folder, size, full, strings):
    normalizer, pre, decoder, byte_fallback = UNIGRAM[name]
    model = train(size, folder, full, model_type="unigram", byte_fallback=byte_fallback, character_coverage=0.98)
    pieces, charsmap = pieces_and_charsmap(model)
    t = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=byte_fallback))
    t.normalizer, t.decoder = normalizer(charsmap), decoder
    if pre is not None:
        t.pre_tokenizer = pre
    t.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in ["<s>", "</s>", *SPECIALS]])
    t.add_tokens([AddedToken("<tool>", special=False, normalized=False), AddedToken("<mask>", special=False, normalized=False, lstrip=True)])
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", t.token_to_id("</s>"))])
    save_hf(folder, t, strings)


BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
CUTS = {  # name: pre-tokenizer of a byte-level vocabulary
    # Falcon's steps. The steps after ByteLevel see its alphabet, in which each character encodes a byte.
    "pre_falcon": pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
                                           pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")]),
    "pre_removed": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "removed", invert=True), BYTE_LEVEL]),
    "pre_next": pre_tokenizers.Sequence([pre_tokenizers.Split(" ", "merged_with_next"), pre_tokenizers.Split(Regex("[aeiou]+"), "merged_with_previous"),
                                         pre_tokenizers.ByteLevel(add_prefix_space=True)]),
    "pre_inverted": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"\p{L}"), "merged_with_next", invert=True),
                                             pre_tokenizers.Split(Regex(r"[.,!?<]"), "contiguous"), BYTE_LEVEL]),
    "pre_words": pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.CharDelimiterSplit("o"), BYTE_LEVEL]),
}


def make_cut(name, folder, size, strings):
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFKC() if name == "pre_words" else normalizers.Sequence([])
    t.pre_tokenizer, t.decoder = CUTS[name], decoders.ByteLevel()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=SPECIALS,
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    save_hf(folder, t, strings)


def save_hf(folder, t, strings):
    t.save(os.path.join(folder, "tokenizer.json"), pretty=False)
    encoded = [encoding.ids for encoding in t.encode_batch(strings, add_special_tokens=False)]
    write_cases(folder, [[text, ids] for text, ids in zip(strings, encoded)],
                [[ids, t.decode(ids, skip_special_tokens=True), t.decode(ids, skip_special_tokens=False)] for ids in encoded[::4]])


SENTENCEPIECE = {  # name: the arguments of the training
    "sp_t5": dict(model_type="unigram", character_coverage=0.98, user_defined_symbols=["<tool>", "don't", "  "]),
    "sp_unigram_bytes": dict(model_type="unigram", byte_fallback=True, normalizes=False, remove_extra_whitespaces=False, character_coverage=0.98),
    "sp_suffix": dict(model_type="unigram", byte_fallback=True, treat_whitespace_as_suffix=True, character_coverage=0.98),
    "sp_llama2": dict(model_type="bpe", byte_fallback=True, normalizes=False, remove_extra_whitespaces=False, character_coverage=0.98),
    "sp_gemma": dict(model_type="bpe", byte_fallback=True, normalizes=False, remove_extra_whitespaces=False, add_dummy_prefix=False,
                     character_coverage=0.98, user_defined_symbols=["<tool>", "\n\n", "\n", MARK * 2, MARK * 4, "don't", "<b>", "</b>"]),
    "sp_bpe": dict(model_type="bpe", character_coverage=0.98),  # no byte tokens
}


def make_sentencepiece(name, folder, size, full, strings):
    model = train(size, folder, full, control_symbols=SPECIALS, **SENTENCEPIECE[name])
    with open(os.path.join(folder, "tokenizer.model"), "wb") as out:
        out.write(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    encoded = processor.encode(strings)
    known = [ids for ids in encoded if processor.unk_id() not in ids]
    write_cases(folder, [[text, ids] for text, ids in zip(strings, encoded)], [[ids, processor.decode(ids), processor.decode(ids)] for ids in known[::4]])


def write_cases(folder, encode, decode):
    with open(os.path.join(folder, "cases.json"), "w") as out:
        json.dump(dict(encode=encode, decode=decode), out, separators=(",", ":"))
        out.write("\n")


def normal_texts(seed, count):
    """Returns texts with many characters that normalizers change."""
    rng = random.Random(seed)
    changed = [*RULES, "``", "''", "é", "e\u0301\u0323", "ﬁ\u0301", "½\u0301", "İ", "Σας", "👩‍🚀", "가\u11a8", "क्ष", "\r\n", MARK, "  ", "<tool>", "don't", "\n\n", *SPECIALS]
    out = []
    for _ in range(count):
        words = rng.choice(SENTENCES).split(" ")
        out.append("".join(rng.choice([" ", "", "", "  "]) + rng.choice([rng.choice(words), rng.choice(changed), rng.choice(PIECES), rng.choice(ASSIGNED)])
                           for _ in range(rng.randrange(1, 9))))
    return out


def make(parent, names, size, full, count):
    """Makes the folders of the named kinds. full: with the large, default charsmap."""
    for name in names:
        folder = os.path.join(parent, name)
        os.makedirs(folder, exist_ok=True)
        rng = random.Random(name)
        strings = texts(name, 0) + [hostile(rng) for _ in range(count // 2)] + normal_texts(name, count // 2)
        if name in UNIGRAM:
            make_unigram(name, folder, size, full, strings)
        elif name in CUTS:
            make_cut(name, folder, max(size, 400), strings)
        else:
            make_sentencepiece(name, folder, size, full, strings)


NAMES = [*UNIGRAM, *CUTS, *SENTENCEPIECE]

if __name__ == "__main__":
    make(os.path.join(HERE, "tokenizers"), NAMES, 420, False, 240)
