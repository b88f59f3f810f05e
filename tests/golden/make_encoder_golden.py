#!/usr/bin/env python3
"""Makes random encoders with their tokenizers (models/NAME, safetensors in float16) and what HF transformers computes with them
in float32 (encoders.json). Needs: pip install torch transformers tokenizers safetensors

  make_encoder_golden.py [NAME...]   all models, or the named ones, whose entries in encoders.json are replaced

NomicBERT and GTE are computed by HF's classes, and their config.json is written with the keys of the published models' own classes. HF has
no class for GTE's scaling "ntk" of its rotation and for Jina's BERT: this script computes both as the published descriptions say. The
layers with which bge-m3 computes a weight and a vector for every token (sparse and ColBERT) are torch's Linear.

A case of a model without a classifier has a prompt and its last hidden states, pooled in three ways: the last token's, the mean over all
tokens, the first token's. A case of a classifier has the prompt and the logits. Short cases of a model with layers for every token also
have `all` rows, `sparse` weights and `colbert` vectors, one token after another. `second` is the index of the first token of a
pair's second text, whose token type is 1; 0 for a single text. `texts` has texts and pairs as HF's tokenizer encodes them, and `ranking` the logits of a query
with each of some documents."""
import json
import math
import os
import random
import sys

import torch
import transformers
from safetensors.torch import save_file
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


class JinaLayer(torch.nn.Module):
    """A layer of Jina's BERT: attention with ALiBi in both directions, a gated MLP, and a LayerNorm after each residual sum. Its parameters
    have the published names."""

    def __init__(self, hidden, heads, columns):
        super().__init__()
        linear, norm = torch.nn.Linear, torch.nn.LayerNorm
        self.heads = heads
        self.attention = torch.nn.ModuleDict({
            "self": torch.nn.ModuleDict({name: linear(hidden, hidden) for name in ("query", "key", "value")}),
            "output": torch.nn.ModuleDict({"dense": linear(hidden, hidden), "LayerNorm": norm(hidden, eps=1e-12)})})
        self.mlp = torch.nn.ModuleDict({"gated_layers": linear(hidden, 2 * columns, bias=False), "wo": linear(columns, hidden),
                                        "layernorm": norm(hidden, eps=1e-12)})

    def slopes(self):
        def of_power(count):
            return [2 ** (-8 * (h + 1) / count) for h in range(count)]
        whole = 2 ** int(math.log2(self.heads))
        return torch.tensor(of_power(whole) + of_power(2 * whole)[0::2][:self.heads - whole])

    def forward(self, x):
        count, hidden = x.shape
        query, key, value = (self.attention["self"][name](x).view(count, self.heads, -1).transpose(0, 1) for name in ("query", "key", "value"))
        places = torch.arange(count)
        scores = query @ key.transpose(1, 2) / math.sqrt(hidden // self.heads)
        scores = scores - self.slopes()[:, None, None] * (places[:, None] - places[None, :]).abs()
        mixed = (torch.softmax(scores, dim=-1) @ value).transpose(0, 1).reshape(count, hidden)
        x = self.attention["output"]["LayerNorm"](x + self.attention["output"]["dense"](mixed))
        gate, up = self.mlp["gated_layers"](x).chunk(2, dim=-1)
        return self.mlp["layernorm"](x + self.mlp["wo"](torch.nn.functional.gelu(gate) * up))


class JinaBert(torch.nn.Module):
    def __init__(self, vocabulary, hidden, heads, layers, columns):
        super().__init__()
        self.embeddings = torch.nn.ModuleDict({"word_embeddings": torch.nn.Embedding(vocabulary, hidden),
                                               "token_type_embeddings": torch.nn.Embedding(2, hidden),
                                               "LayerNorm": torch.nn.LayerNorm(hidden, eps=1e-12)})
        self.encoder = torch.nn.ModuleDict({"layer": torch.nn.ModuleList(JinaLayer(hidden, heads, columns) for _ in range(layers))})

    def forward(self, input_ids, token_type_ids=None):
        types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        x = self.embeddings["LayerNorm"](self.embeddings["word_embeddings"](input_ids[0]) + self.embeddings["token_type_embeddings"](types[0]))
        for layer in self.encoder["layer"]:
            x = layer(x)
        return transformers.modeling_outputs.BaseModelOutput(last_hidden_state=x[None])


def published_nomic(config):
    """Returns the configuration in the keys of the published models' class."""
    false = ("causal", "mlp_fc1_bias", "mlp_fc2_bias", "parallel_block", "prenorm", "qkv_proj_bias", "rotary_emb_interleaved", "use_rms_norm",
             "scale_attn_by_inverse_layer_idx")
    return dict(model_type="nomic_bert", architectures=["NomicBertModel"], activation_function="swiglu", n_embd=config.hidden_size,
                n_head=config.num_attention_heads, n_layer=config.num_hidden_layers, n_inner=config.intermediate_size,
                n_positions=config.max_position_embeddings, max_trained_positions=config.max_position_embeddings,
                type_vocab_size=config.type_vocab_size, vocab_size=config.vocab_size, layer_norm_epsilon=config.layer_norm_eps,
                rotary_emb_base=config.rope_parameters["rope_theta"], rotary_emb_fraction=1.0, rotary_emb_scale_base=None, rotary_scaling_factor=None,
                scale_attn_weights=True, pad_vocab_size_multiple=1, use_flash_attn=True, **{key: False for key in false})


NTK = 2.0  # GTE's factor


def published_gte(config):
    return dict(model_type="new", architectures=["NewModel"], hidden_size=config.hidden_size, num_attention_heads=config.num_attention_heads,
                num_hidden_layers=config.num_hidden_layers, intermediate_size=config.intermediate_size, hidden_act="gelu",
                max_position_embeddings=config.max_position_embeddings, type_vocab_size=config.type_vocab_size, vocab_size=config.vocab_size,
                layer_norm_eps=config.layer_norm_eps, layer_norm_type="layer_norm", position_embedding_type="rope", pack_qkv=True,
                rope_theta=config.rope_parameters["rope_theta"], rope_scaling=dict(factor=NTK, type="ntk"), logn_attention_clip1=False,
                logn_attention_scale=False, unpad_inputs=False, use_memory_efficient_attention=False)


def scale_gte(model):
    """Sets the frequencies of the scaling "ntk": theta grows by the factor, and all frequencies shrink by factor^(2 / head_dim)."""
    dim = model.config.hidden_size // model.config.num_attention_heads
    theta = model.config.rope_parameters["rope_theta"] * NTK
    model.rotary_emb.inv_freq = 1.0 / (theta ** (torch.arange(0, dim, 2, dtype=torch.float) / dim)) / NTK ** (2 / dim)
    return model


def add_token_layers(directory, hidden, columns):
    """Writes bge-m3's layers for every token (sparse and ColBERT), each in a file of its own. Returns the layers by name."""
    layers = {}
    for name, rows in (("sparse", 1), ("colbert", columns)):
        layer = torch.nn.Linear(hidden, rows)
        torch.nn.init.normal_(layer.weight, std=0.3)
        layer.to(torch.float16)
        save_file({"weight": layer.weight.detach().contiguous(), "bias": layer.bias.detach().contiguous()}, f"{directory}/{name}_linear.safetensors")
        layers[name] = layer.to(torch.float32)
    return layers


MODELS = {
    "bert": (word_piece, "Model", sizes("Bert", 40, 5, 3, 72, 200)),
    "bert_pairs": (word_piece, "ForSequenceClassification", sizes("Bert", 48, 3, 2, 100, 200, num_labels=1)),
    "xlmr": (unigram, "Model", sizes("XLMRoberta", 48, 6, 2, 77, 202, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1)),
    "xlmr_pairs": (unigram, "ForSequenceClassification", sizes("XLMRoberta", 40, 4, 2, 96, 202, type_vocab_size=1, pad_token_id=1, num_labels=1)),
    "modernbert": (word_piece, "Model", sizes("ModernBert", 48, 4, 5, 70, 1024, local_attention=20, pad_token_id=0)),
    "modernbert_classes": (word_piece, "ForSequenceClassification",
                           sizes("ModernBert", 40, 5, 4, 64, 1024, local_attention=24, pad_token_id=0, num_labels=3, classifier_pooling="mean")),
    "electra_pairs": (word_piece, "ForSequenceClassification", sizes("Electra", 40, 5, 2, 70, 200, embedding_size=40, num_labels=1)),
    "distilbert": (word_piece, "Model", dict(kind="DistilBert", dim=40, n_heads=4, n_layers=2, hidden_dim=72, max_position_embeddings=200)),
    "distilbert_classes": (word_piece, "ForSequenceClassification",
                           dict(kind="DistilBert", dim=48, n_heads=3, n_layers=2, hidden_dim=64, max_position_embeddings=200,
                                id2label={0: "sad", 1: "glad", 2: "mad", 3: "so so"}, problem_type="multi_label_classification")),
    "mpnet": (word_piece, "Model", sizes("MPNet", 40, 5, 3, 72, 202, pad_token_id=1)),
    "nomicbert": (word_piece, "Model", sizes("NomicBert", 48, 3, 3, 80, 512)),
    "gte": (word_piece, "Model", sizes("Gte", 48, 3, 3, 80, 512, type_vocab_size=0, pad_token_id=0, rope_parameters=dict(rope_type="default", rope_theta=500.0))),
    "jinabert": (word_piece, "Model", dict(kind="JinaBert", hidden=40, heads=5, layers=3, columns=72)),
    "jinav3": (unigram, "Model", sizes("JinaEmbeddingsV3", 48, 3, 3, 80, 512, pad_token_id=1, rope_parameters=dict(rope_type="default", rope_theta=300.0))),
    "m3": (unigram, "Model", sizes("XLMRoberta", 48, 4, 2, 80, 202, type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1)),
}
M3_COLUMNS = 24


@torch.no_grad()
def case(model, ids, second, types, token_layers=None):
    inputs = dict(input_ids=torch.tensor([ids]))
    if second and types > 1:
        inputs["token_type_ids"] = torch.tensor([[int(i >= second) for i in range(len(ids))]])
    result = dict(prompt=ids, second=second)
    if hasattr(model, "classifier"):
        return dict(result, answer=[round(x, 7) for x in model(**inputs).logits[0].tolist()])
    states = model(**inputs).last_hidden_state[0].double()
    vectors = dict(last=states[-1], mean=states.mean(dim=0), cls=states[0])
    if token_layers and len(ids) < 20:
        vectors.update(all=states.flatten(), sparse=torch.relu(token_layers["sparse"](states.float())).flatten(),
                       colbert=token_layers["colbert"](states.float()).flatten())
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


def make_jina(name, shape, vocabulary):
    model = JinaBert(vocabulary, **shape).eval()
    spread_out(model)
    model.to(torch.float16)
    directory = f"{HERE}/models/{name}"
    os.makedirs(directory, exist_ok=True)
    save_file({key: tensor.contiguous() for key, tensor in model.state_dict().items()}, f"{directory}/model.safetensors")
    config = dict(model_type="bert", architectures=["JinaBertModel"], hidden_size=shape["hidden"], num_attention_heads=shape["heads"],
                  num_hidden_layers=shape["layers"], intermediate_size=shape["columns"], max_position_embeddings=512, type_vocab_size=2,
                  vocab_size=vocabulary, hidden_act="gelu", layer_norm_eps=1e-12, position_embedding_type="alibi", feed_forward_type="geglu",
                  emb_pooler="mean")
    write_config(directory, config)
    return model.to(torch.float32)


def write_config(directory, config):
    with open(f"{directory}/config.json", "w", encoding="utf-8") as out:
        json.dump(config, out, indent=2, sort_keys=True)
        out.write("\n")


def make(name):
    make_tokenizer, suffix, shape = MODELS[name]
    shape = dict(shape)
    torch.manual_seed(sum(map(ord, name)))
    tokenizer = make_tokenizer()
    kind, vocabulary = shape.pop("kind"), tokenizer.get_vocab_size()
    directory = f"{HERE}/models/{name}"
    if kind == "JinaBert":
        model, types = make_jina(name, shape, vocabulary), 2
    else:
        labels = {"num_labels": shape.pop("num_labels")} if "num_labels" in shape else {}
        config = getattr(transformers, f"{kind}Config")(vocab_size=vocabulary, **{**dict(bos_token_id=None, eos_token_id=None), **shape}, **labels)
        model = getattr(transformers, f"{kind}{suffix}")(config).eval()
        spread_out(model)
        model.to(torch.float16).save_pretrained(directory)
        model = getattr(transformers, f"{kind}{suffix}").from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
        types = getattr(config, "type_vocab_size", 1)
        if kind == "NomicBert":
            write_config(directory, published_nomic(config))
        if kind == "Gte":
            write_config(directory, published_gte(config))
            scale_gte(model)
    tokenizer.save(f"{directory}/tokenizer.json", pretty=False)
    token_layers = add_token_layers(directory, shape["hidden_size"], M3_COLUMNS) if name == "m3" else None
    rng = random.Random(name)
    cases = []
    for length in LENGTHS:
        ids = [rng.randrange(5, vocabulary) for _ in range(length)]
        cases.append(case(model, ids, 0, types, token_layers))
        if length > 6:
            cases.append(case(model, ids[::-1], length // 3, types, token_layers))
    golden = dict(cases=cases, texts=encoded(tokenizer))
    if name.endswith("_pairs"):
        golden["ranking"] = ranking(model, tokenizer)
    print(name, vocabulary, len(cases))
    return golden


def main():
    path, golden = f"{HERE}/encoders.json", {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            golden = json.load(f)
    for name in sys.argv[1:] or MODELS:
        golden[name] = make(name)
    with open(path, "w", encoding="utf-8") as out:
        out.write("{" + ",\n".join(f"{json.dumps(name)}: {json.dumps(golden[name], separators=(',', ':'))}" for name in MODELS) + "}\n")


if __name__ == "__main__":
    main()
