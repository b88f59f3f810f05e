#!/usr/bin/env python3
"""Makes random encoders with their tokenizers (models/NAME, safetensors in float16) and what HF transformers computes with them
in float32 (encoders.json). Needs: pip install torch transformers tokenizers safetensors

  make_encoder_golden.py

A case of a model without a classifier has a prompt and its last hidden states, pooled in three ways: the last token's, the mean over all
tokens, the first token's. A case of a classifier has the prompt and the logits. `second` is the index of the first token of a
pair's second text, whose token type is 1; 0 for a single text. `texts` has texts and pairs as HF's tokenizer encodes them, and `ranking` the logits of a query
with each of some documents."""
import json
import os
import random

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from make_layer_norm_golden import spread_out

HERE = os.path.dirname(os.path.abspath(__file__))
LENGTHS = [1, 2, 7, 15, 16, 17, 31, 33, 64, 100, 150, 200]

# Texts with everything that normalizers and vocabularies treat specially.
TEXTS = ["", " ", "a", "Hello, world!", "The quick brown fox jumps over the lazy dog.", "ünïcödé ÀÉÎ naïve café", "e\u0301 a\u0308 n\u0303 combining",
         "日本語のテキスト 中文字符 한국어", "mixed中文and English", "emoji 👍🏽 👨‍👩‍👧 ❤️", "tabs\tand\nnew\r\nlines\u00a0nbsp\u2003em", "control \x00\x01\x07\x7f\x85 signs",
         "zero\u200bwidth\u200djoiner\ufeffbom", "x" * 101, "y" * 100, "antidisestablishmentarianism", "[MASK] and [CLS] and [SEP] and <mask> and </s>", "don't stop-me_now #1 $5.00 50%",
         "ǅ İstanbul ß ſ ﬁ ﬃ Ⅷ ① ㍿", "Ωμέγα кириллица עברית العربية हिन्दी ไทย", "\U00020000\U0002a700 rare", "<s> a </s>", "  leading and trailing  ", "\ufffd replacement",
         "\u00ad soft\u00adhyphen", "a\u0300\u0301\u0302b", "´`¨^~", "«quotes» “curly” ‘single’ … — –", "１２３ ＡＢＣ fullwidth", "\ue000 private \ud7ff", "q" * 300 + " after"]
TRAINING = [t for t in TEXTS if len(t) < 100] * 3 + ["the lazy dog and the quick fox", "hello there world", "stop now and then", "leading texts of the world"] * 4


def word_piece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    trainer = trainers.WordPieceTrainer(vocab_size=220, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False)
    tokenizer.train_from_iterator(TRAINING, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
                                                             special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(__import__("tokenizers").Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.UnigramTrainer(vocab_size=230, special_tokens=special, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(TRAINING, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return tokenizer


def sizes(kind, hidden, heads, layers, columns, positions, **more):
    return dict(kind=kind, hidden_size=hidden, num_attention_heads=heads, num_hidden_layers=layers, intermediate_size=columns,
                max_position_embeddings=positions, **more)


MODELS = {
    "bert": (word_piece, "Model", sizes("Bert", 40, 5, 3, 72, 200)),
    "bert_pairs": (word_piece, "ForSequenceClassification", sizes("Bert", 48, 3, 2, 100, 200, num_labels=1)),
    "xlmr": (unigram, "Model", sizes("XLMRoberta", 48, 6, 2, 77, 202, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1)),
    "xlmr_pairs": (unigram, "ForSequenceClassification", sizes("XLMRoberta", 40, 4, 2, 96, 202, type_vocab_size=1, pad_token_id=1, num_labels=1)),
    "modernbert": (word_piece, "Model", sizes("ModernBert", 48, 4, 5, 70, 1024, local_attention=20, pad_token_id=0)),
    "modernbert_classes": (word_piece, "ForSequenceClassification",
                           sizes("ModernBert", 40, 5, 4, 64, 1024, local_attention=24, pad_token_id=0, num_labels=3, classifier_pooling="mean")),
}


@torch.no_grad()
def case(model, ids, second, types):
    inputs = dict(input_ids=torch.tensor([ids]))
    if second and types > 1:
        inputs["token_type_ids"] = torch.tensor([[int(i >= second) for i in range(len(ids))]])
    result = dict(prompt=ids, second=second)
    if hasattr(model, "classifier"):
        return dict(result, answer=[round(x, 7) for x in model(**inputs).logits[0].tolist()])
    states = model(**inputs).last_hidden_state[0].double()
    vectors = dict(last=states[-1], mean=states.mean(dim=0), cls=states[0])
    return dict(result, **{name: [round(x, 6) for x in vector.tolist()] for name, vector in vectors.items()})


def encoded(tokenizer):
    singles = [dict(text=text, ids=tokenizer.encode(text).ids) for text in TEXTS]
    pairs = []
    for first, second in zip(TEXTS, TEXTS[::-1]):
        pair = tokenizer.encode(first, second)
        pairs.append(dict(text=first, second=second, ids=pair.ids, types=pair.type_ids))
    return singles + pairs


@torch.no_grad()
def ranking(model, tokenizer):
    """Returns a query, documents, and the logits of their pairs."""
    query, documents, logits = "the quick fox", [text for text in TEXTS if text.strip() and len(text) < 80], []
    for document in documents:
        pair = tokenizer.encode(query, document)
        inputs = dict(input_ids=torch.tensor([pair.ids]))
        if model.config.type_vocab_size > 1:
            inputs["token_type_ids"] = torch.tensor([pair.type_ids])
        logits.append(round(model(**inputs).logits[0, 0].item(), 7))
    return dict(query=query, documents=documents, logits=logits)


def main():
    golden = {}
    for name, (make_tokenizer, suffix, shape) in MODELS.items():
        shape = dict(shape)
        torch.manual_seed(sum(map(ord, name)))
        tokenizer = make_tokenizer()
        kind, vocabulary = shape.pop("kind"), tokenizer.get_vocab_size()
        labels = {"num_labels": shape.pop("num_labels")} if "num_labels" in shape else {}
        config = getattr(transformers, f"{kind}Config")(vocab_size=vocabulary, **{**dict(bos_token_id=None, eos_token_id=None), **shape}, **labels)
        model = getattr(transformers, f"{kind}{suffix}")(config).eval()
        spread_out(model)
        directory = f"{HERE}/models/{name}"
        model.to(torch.float16).save_pretrained(directory)
        tokenizer.save(f"{directory}/tokenizer.json", pretty=False)
        model = getattr(transformers, f"{kind}{suffix}").from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
        rng = random.Random(name)
        cases = []
        for length in LENGTHS:
            ids = [rng.randrange(5, vocabulary) for _ in range(length)]
            cases.append(case(model, ids, 0, getattr(config, "type_vocab_size", 1)))
            if length > 6:
                cases.append(case(model, ids[::-1], length // 3, getattr(config, "type_vocab_size", 1)))
        golden[name] = dict(cases=cases, texts=encoded(tokenizer))
        if name.endswith("_pairs"):
            golden[name]["ranking"] = ranking(model, tokenizer)
        print(name, vocabulary, len(cases))
    with open(f"{HERE}/encoders.json", "w", encoding="utf-8") as out:
        out.write("{" + ",\n".join(f"{json.dumps(name)}: {json.dumps(entry, separators=(',', ':'))}" for name, entry in golden.items()) + "}\n")


if __name__ == "__main__":
    main()
