#!/usr/bin/env python3
"""Compares Quire's tokenizer with HF tokenizers and sentencepiece on many texts. The vocabularies are the published ones that PyPI has:
Mistral's SentencePiece models (a tokenizer.json against HF tokenizers, a GGUF file and a tokenizer.model against sentencepiece). In
addition, every kind of make_unigram_golden.py is compared, with larger vocabularies and SentencePiece's default charsmap. Needs: pip
install tokenizers jinja2 gguf sentencepiece mistral-common protobuf

  compare_tokenizers.py TEST FOLDER [COUNT [KIND..]]   TEST: build/tests/coordinator_tokenizer_test; COUNT strings of each
                                                       kind (100,000); KIND: mistral, or a name in make_unigram_golden.py
"""
import glob
import json
import os
import shutil
import subprocess
import sys

import gguf
import mistral_common
import sentencepiece
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

import make_unigram_golden
from make_text_golden import DROPS, FROM_MARKS, MARK, TO_MARKS, texts


def merges_of(pieces):
    """Returns every pair of pieces that joined are a piece, the best joined piece first. HF converts such models to these merges."""
    scores = {piece: score for piece, score, kind in pieces if kind == gguf.TokenType.NORMAL}
    ways = [(-score, i, piece[:at], piece[at:]) for i, (piece, score) in enumerate(scores.items()) for at in range(1, len(piece))
            if piece[:at] in scores and piece[at:] in scores]
    return [(left, right) for _, _, left, right in sorted(ways)]


def pieces_of(model):
    kinds = [(model.is_unknown, gguf.TokenType.UNKNOWN), (model.is_control, gguf.TokenType.CONTROL), (model.is_byte, gguf.TokenType.BYTE),
             (model.is_unused, gguf.TokenType.UNUSED)]
    return [(model.id_to_piece(i), model.get_score(i), next((kind for test, kind in kinds if test(i)), gguf.TokenType.NORMAL))
            for i in range(model.vocab_size())]


def write_hf(folder, pieces, strings):
    t = Tokenizer(models.BPE(vocab={piece: i for i, (piece, _, _) in enumerate(pieces)}, merges=merges_of(pieces), unk_token="<unk>",
                             byte_fallback=True, fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), TO_MARKS])
    t.decoder = decoders.Sequence([*FROM_MARKS, DROPS])
    t.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece, _, kind in pieces
                          if kind in (gguf.TokenType.CONTROL, gguf.TokenType.UNKNOWN)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", t.token_to_id("<s>"))])
    t.save(os.path.join(folder, "tokenizer.json"))
    encoded = [t.encode(text, add_special_tokens=False).ids for text in strings]
    write_cases(folder, [[text, ids] for text, ids in zip(strings, encoded)],
                [[ids, t.decode(ids, skip_special_tokens=True), t.decode(ids, skip_special_tokens=False)] for ids in encoded[::4]])


def write_gguf(folder, model, pieces, strings):
    writer = gguf.GGUFWriter(os.path.join(folder, "vocabulary.gguf"), "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list([piece for piece, _, _ in pieces])
    writer.add_token_scores([score for _, score, _ in pieces])
    writer.add_token_types([kind for _, _, kind in pieces])
    writer.add_bos_token_id(1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    # sentencepiece treats control tokens in a text as plain text, drops NUL, and trims nothing in these models.
    controls = [piece for piece, _, kind in pieces if kind in (gguf.TokenType.CONTROL, gguf.TokenType.UNKNOWN)]
    plain = [text for text in strings if "\0" not in text and not any(piece in text for piece in controls)]
    write_cases(folder, [[text, model.encode(text)] for text in plain], [])


def write_cases(folder, encode, decode):
    with open(os.path.join(folder, "cases.json"), "w") as out:
        json.dump(dict(encode=encode, decode=decode), out)


def write_model(folder, path, model, strings):
    """Copies the model file unchanged, and writes the texts with sentencepiece's tokens. Leaves out texts with zero characters. Both
    sides treat control tokens in a text as plain text."""
    shutil.copy(path, os.path.join(folder, "tokenizer.model"))
    write_cases(folder, [[text, model.encode(text)] for text in strings if "\0" not in text], [])


def make_mistral(folder, count):
    strings = texts("real", count)
    for path in sorted(glob.glob(os.path.join(os.path.dirname(mistral_common.__file__), "data", "*.model.v*"))):
        name = os.path.basename(path).replace(".", "_")
        model = sentencepiece.SentencePieceProcessor(model_file=path)
        pieces = pieces_of(model)
        for way in ("hf", "gguf", "model"):
            target = os.path.join(folder, f"{name}_{way}")
            os.makedirs(target, exist_ok=True)
            if way == "hf":
                write_hf(target, pieces, strings)
            elif way == "gguf":
                write_gguf(target, model, pieces, strings)
            else:
                write_model(target, path, model, strings)


def main():
    test, folder, count = os.path.abspath(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 100_000
    kinds = sys.argv[4:] or ["mistral", *make_unigram_golden.NAMES]
    if "mistral" in kinds:
        make_mistral(folder, count)
    make_unigram_golden.make(folder, [kind for kind in kinds if kind != "mistral"], 2000, True, count)
    environment = {**os.environ, "QUIRE_TEST_VOCABULARIES": os.path.abspath(folder)}
    sys.exit(subprocess.run([test, "--gtest_filter=*VocabularyTest*"], env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
