#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets' corpora (tests/fuzz/corpus/TARGET/seed-*). Does not touch the other files in these folders: inputs
that once failed, named after the parts that they broke."""
import base64
import json
import math
import os
import re
import struct

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "tests", "fuzz", "corpus")


def write(target, name, data):
    folder = os.path.join(FOLDER, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"seed-{name}"), "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def http_head():
    """Writes HTTP requests. The first byte plus one is the number of bytes that the parser gets at a time."""
    host, body = "Host: localhost", '{"prompt":"x"}'
    for name, lines, tail in (
            ("length", [host, f"Content-Length: {len(body)}"], body),
            ("chunked", [host, "Transfer-Encoding: chunked"], f"{len(body):x}\r\n{body}\r\n0\r\n\r\n"),
            ("extension", [host, "Transfer-Encoding: chunked"], "2;a=b\r\n{}\r\n0\r\n\r\n"),
            ("trailer", [host, "Transfer-Encoding: chunked"], "2\r\n{}\r\n0\r\nA: b\r\n\r\n"),
            ("both", [host, "Transfer-Encoding: gzip", "Content-Length: 5"], "hello"),
            ("hosts", [host, host], ""), ("fields", [host] + ["A: b"] * 25, ""),
            ("expect", [host, "Expect: 100-continue", "X-Request-Id: a-1", "Content-Length: 2"], "{}"),
            ("folded", [host, "A: b\r\n c"], "")):
        head = "\r\n".join(["POST /v1/completions?a=1 HTTP/1.1", *lines]) + "\r\n\r\n" + tail
        for piece in (b"\xff", b"\x06"):
            write("http_head", f"{name}-{piece[0]}", piece + head.encode())
    write("http_head", "get", b"\x20GET /health HTTP/1.0\r\n\r\n")


def json_request():
    """Writes bodies of requests. The first byte is odd for a chat request."""
    completion = [
        {"prompt": "x", "max_tokens": 5, "temperature": 0.5, "n": 2, "best_of": 3, "seed": -1, "logprobs": 2},
        {"prompt": [1, 2, 3], "stream": True, "stream_options": {"include_usage": True}, "stop": ["a", "b"]},
        {"prompt": ["a", "b"], "logit_bias": {"5": 1.5, "7": -100}, "stop_token_ids": [3, 4], "min_tokens": 2},
        {"prompt": [[1], [2, 3]], "use_beam_search": True, "n": 2, "length_penalty": 0.5, "early_stopping": "never"},
        {"prompt": "x", "priority": -5, "deadline_seconds": 2.5, "cache_salt": "s", "top_k": -1, "top_p": 0.9, "min_p": 0.1},
        {"prompt": "x", "repetition_penalty": 1.1, "presence_penalty": -2, "frequency_penalty": 2, "echo": True},
    ]
    chat = [
        {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}], "max_completion_tokens": 9},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}], "logprobs": True, "top_logprobs": 3},
        {"messages": [{"role": "user", "content": "hi"}], "tools": [], "tool_choice": "none", "response_format": {"type": "text"}},
    ]
    for i, body in enumerate(completion):
        write("json_request", f"completion-{i}", b"\0" + json.dumps(body).encode())
    for i, body in enumerate(chat):
        write("json_request", f"chat-{i}", b"\1" + json.dumps(body).encode())
    for name, text in (("surrogates", r'{"prompt":"\ud83d\ude00\u0000"}'), ("numbers", '{"prompt":[1e2,-0,18446744073709551615,0.1]}'),
                       ("deep", '{"a":' * 31 + "1" + "}" * 31), ("twice", '{"prompt":"a","prompt":"b"}')):
        write("json_request", name, "\0" + text)


class Table:
    """Writes a FlatBuffers table in the simplest way: fields by index, each of them an inline scalar or an offset to bytes."""

    def __init__(self):
        self.fields = {}

    def scalar(self, index, format, value):
        self.fields[index] = (format, value)
        return self

    def blob(self, index, data):
        self.fields[index] = ("blob", data)
        return self

    def finish(self):
        count = max(self.fields, default=-1) + 1
        vtable_size = 4 + 2 * count
        start = (4 + vtable_size + 7) // 8 * 8  # where the table begins
        at, inline, blobs, offsets = 4, b"\0" * 4, [], [0] * count
        for index, (format, value) in sorted(self.fields.items()):
            size = 4 if format == "blob" else struct.calcsize("<" + format)
            pad = -at % size
            inline += b"\0" * pad
            at += pad
            offsets[index] = at
            if format == "blob":
                blobs.append((at, value))
                inline += b"\0" * 4
            else:
                inline += struct.pack("<" + format, value)
            at += size
        table = bytearray(inline)
        tail = b""
        for place, data in blobs:
            tail += b"\0" * (-(start + len(table) + len(tail)) % 4)
            struct.pack_into("<I", table, place, len(table) + len(tail) - place)
            tail += data
        vtable = struct.pack("<HH", vtable_size, at) + b"".join(struct.pack("<H", o) for o in offsets)
        struct.pack_into("<i", table, 0, start - (start - vtable_size))
        return struct.pack("<I", start) + b"\0" * (start - 4 - vtable_size) + vtable + bytes(table) + tail


def text(value):
    return struct.pack("<I", len(value)) + value.encode() + b"\0"


def numbers(format, *values):
    return struct.pack("<I", len(values)) + b"".join(struct.pack("<" + format, v) for v in values)


def structs(format, *values):
    return struct.pack("<I", len(values)) + b"".join(struct.pack("<" + format, *v) for v in values)


def frame_decode():
    """Writes frames. The first byte is the kind of the frame, or 11 when the frame's header follows."""
    plan = Table().blob(0, numbers("I", 1)).blob(3, structs("IIi", (0, 1, 5))).blob(6, structs("ii", (3, 4)))
    plan = plan.blob(7, numbers("B", 3)).blob(8, structs("Iii", (2, 0, 4))).scalar(9, "Q", 9)
    bodies = {
        1: Table().blob(0, text("0.1.0")).blob(1, text("host")).scalar(2, "i", 77).scalar(3, "i", 1).scalar(4, "i", 2),
        2: Table().blob(0, text("/m")).blob(1, text("ab")).scalar(2, "H", 5).scalar(3, "i", 16).blob(8, numbers("d", 1.0, 2.0)),
        3: Table().blob(0, text("ab")).blob(1, text("avx2")).scalar(2, "q", 4096),
        4: Table().scalar(0, "i", 100).scalar(1, "i", 3), 5: Table().scalar(0, "i", 100).scalar(2, "q", 900),
        6: Table().blob(0, text("load")).blob(1, text("no such file")), 7: Table().scalar(0, "Q", 4),
        8: Table().blob(0, text("the end")), 9: plan,
        10: Table().scalar(0, "i", 0).scalar(1, "Q", 1).scalar(2, "Q", 2).scalar(3, "I", 3),
    }
    for kind, body in bodies.items():
        write("frame_decode", f"kind-{kind}", bytes([kind]) + body.finish())
    write("frame_decode", "whole", b"\x0b" + struct.pack("<4sHHQQQ", b"QUIR", 3, 7, 1, 0, 0) + bodies[7].finish())


def plan_apply():
    write("plan_apply", "two", bytes([2, 1, 0, 9, 5, 1, 2, 3, 0, 1, 2, 7, 6, 4, 5, 0, 1, 1, 1, 0, 0, 3, 7] * 3))
    write("plan_apply", "mixed", bytes(range(1, 120)))
    write("plan_apply", "long", bytes((i * 37 + i // 7) % 251 for i in range(240)))


def yaml_topology():
    write("yaml_topology", "all", """model: {path: /m, name: n}
parallel: {tensor: 3, shares: [1, 2.5, 1]}
cache: {block_size: 16, memory: 0.5, host_swap: 2GiB}
scheduler: {max_running: 8, preemption: swap}
server: {listen: "127.0.0.1:80"}
""")
    write("yaml_topology", "nodes", """model:
  path: x.gguf
nodes:
  - host: a-1.example
    devices: [0, 1]
transport: {bind: 10.0.0.1, ports: [1, 2], keys: k}
launch: {method: external, args: ["-x"]}
admin: {listen: "[::1]:9"}
""")
    write("yaml_topology", "odd", "a: &x [*x]\nb: !t 1\n---\n? [1]\n: |\n  x\n")


def safetensors():
    """Writes files. The first byte is odd when a whole file follows, and even when header, zero byte and data follow."""
    header = {"a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}, "b": {"dtype": "BF16", "shape": [3], "data_offsets": [8, 14]},
              "__metadata__": {"format": "pt"}}
    text = json.dumps(header).encode()
    write("safetensors", "two", b"\0" + text + b"\0" + bytes(14))
    write("safetensors", "scalar", b'\0{"s":{"dtype":"F16","shape":[],"data_offsets":[0,2]}}\0ab')
    write("safetensors", "empty", b'\0{"e":{"dtype":"F32","shape":[0,5],"data_offsets":[0,0]}}\0')
    write("safetensors", "mxfp4", b'\0{"w_blocks":{"dtype":"U8","shape":[2,1,16],"data_offsets":[0,32]},'
          b'"w_scales":{"dtype":"U8","shape":[2,1],"data_offsets":[32,34]}}\0' + bytes(34))
    # The tensors of a matrix of each quantisation method, with 4 or 8 bits.
    for name, parts in (("gptq", [("qweight", "I32", [2, 8]), ("qzeros", "I32", [2, 1]), ("scales", "F16", [2, 8]), ("g_idx", "I32", [16])]),
                        ("gptq8", [("qweight", "I32", [1, 4]), ("qzeros", "I32", [1, 1]), ("scales", "F16", [1, 4])]),
                        ("awq", [("qweight", "I32", [16, 1]), ("qzeros", "I32", [2, 1]), ("scales", "F16", [2, 8])]),
                        ("fp8", [("weight", "F8_E4M3", [3, 4]), ("weight_scale_inv", "F32", [2, 2])]),
                        ("int8", [("weight", "I8", [3, 4]), ("weight_scale", "BF16", [3, 2]), ("weight_zero_point", "I8", [3, 2])]),
                        ("packed", [("weight_packed", "I32", [3, 1]), ("weight_scale", "F32", [3, 2]), ("weight_zero_point", "I32", [1, 2]),
                                    ("weight_shape", "I64", [2])])):
        header, data = {}, b""
        for part, dtype, shape in parts:
            size = {"I64": 8, "I32": 4, "F32": 4, "F16": 2, "BF16": 2}.get(dtype, 1)
            numbers = struct.pack("<2q", 3, 4) if part == "weight_shape" else bytes(math.prod(shape) * size)
            header[f"m.{part}"] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(numbers)]}
            data += numbers
        write("safetensors", name, b"\0" + json.dumps(header).encode() + b"\0" + data)
    write("safetensors", "raw", b"\1" + struct.pack("<Q", len(text)) + text + bytes(14))


def gguf():
    def string(s):
        return struct.pack("<Q", len(s)) + s.encode()

    def strings(values):
        return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(string, values))

    values = {
        "general.architecture": struct.pack("<I", 8) + string("llama"),
        "tokenizer.ggml.model": struct.pack("<I", 8) + string("gpt2"),
        "tokenizer.ggml.tokens": strings(["a", "b", "ab", "<|end|>"]),
        "tokenizer.ggml.merges": strings(["a b"]),
        "tokenizer.ggml.token_type": struct.pack("<IIQ4i", 9, 5, 4, 1, 1, 1, 3),
        "tokenizer.ggml.bos_token_id": struct.pack("<II", 4, 3),
        "tokenizer.ggml.add_bos_token": struct.pack("<I?", 7, True),
    }
    shape = {"embedding_length": 4, "block_count": 1, "attention.head_count": 2, "feed_forward_length": 8, "context_length": 32}
    values.update({"llama." + key: struct.pack("<II", 4, value) for key, value in shape.items()})
    values["llama.attention.layer_norm_rms_epsilon"] = struct.pack("<If", 6, 1e-5)

    def file(values, tensors):
        out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
        out += b"".join(string(key) + value for key, value in values.items())
        for name, dims, kind, offset in tensors:
            out += string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
        return out + b"\0" * (-len(out) % 32) + bytes(96)

    write("gguf", "whole", file(values, [("output.weight", [4, 2], 0, 0), ("q", [32], 2, 32)]))
    write("gguf", "small", file({"general.alignment": struct.pack("<II", 4, 32)}, [("t", [2], 1, 0)]))
    write("gguf", "types", file({str(t): struct.pack("<I", t) + bytes(size) for t, size in
                                 enumerate((1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8)) if size}, []))


def tokenizer_json():
    """Writes tokenizer.json, a zero byte, tokenizer_config.json, a zero byte and a text."""
    def make(config, text, **parts):
        tokenizer = {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "\u0120": 3, "c": 4}, "merges": ["a b"]},
                     "added_tokens": [{"id": 5, "content": "<e>", "special": True}], "pre_tokenizer": {"type": "ByteLevel"}, **parts}
        return json.dumps(tokenizer, separators=(",", ":")).encode() + b"\0" + json.dumps(config).encode() + b"\0" + text.encode()

    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<e>"}}, {"Sequence": {"id": "A"}}],
                "special_tokens": {"<e>": {"id": "<e>", "ids": [5]}}}
    split = {"type": "Split", "pattern": {"Regex": "\\s+(?!\\S)|\\p{L}+"}, "behavior": "Isolated", "invert": False}
    write("tokenizer_json", "plain", make({"bos_token": "<e>", "eos_token": {"content": "<e>"}}, "ab c<e> a"))
    write("tokenizer_json", "prefix", make({}, "abab", post_processor=template, normalizer={"type": "NFC"}))
    write("tokenizer_json", "split", make({"chat_template": [{"name": "default", "template": "x"}]}, "a  b\u00e9\u0301",
                                          pre_tokenizer={"type": "Sequence", "pretokenizers": [split, {"type": "Digits", "individual_digits": True}, {"type": "ByteLevel"}]}))
    write("tokenizer_json", "strips", make({}, "a  <e>  b", added_tokens=[
        {"id": 5, "content": "<e>", "special": True, "lstrip": True, "rstrip": True}, {"id": 6, "content": "b", "single_word": True}]))
    marks = [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    unigram = {"type": "Unigram", "unk_id": 0, "byte_fallback": True, "vocab": [["<unk>", 0], ["\u2581", -1], ["a", -2.5], ["ab", -3], ["<0xC3>", -4]]}
    write("tokenizer_json", "unigram", make({}, "ab \u00e9c", model=unigram, normalizer={"type": "Sequence", "normalizers": [
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}, {"type": "Lowercase"}, {"type": "Strip"}]},
        pre_tokenizer={"type": "Metaspace", "split": False}, decoder={"type": "Sequence", "decoders": marks}))
    charsmap = base64.b64encode(struct.pack("<III", 8, 0x400, 0x141) + b"b\0").decode()
    write("tokenizer_json", "charsmap", make({}, "a\u0301b", model=unigram, normalizer={"type": "Precompiled", "precompiled_charsmap": charsmap},
                                             pre_tokenizer={"type": "WhitespaceSplit"}, decoder={"type": "Metaspace"}))
    write("tokenizer_json", "alphabet", make({}, "a,b", pre_tokenizer={"type": "Sequence", "pretokenizers": [
        {"type": "Punctuation", "behavior": "MergedWithNext"}, {"type": "ByteLevel"}, {"type": "Split", "pattern": {"String": "b"}, "behavior": "Removed", "invert": True}]}))


def varint(value):
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7f | 0x80]), value >> 7
    return out + bytes([value])


def tokenizer_model():
    """Writes tokenizer_config.json, a zero byte, a text, a zero byte and tokenizer.model."""
    def field(number, value):
        if isinstance(value, float):
            return varint(number << 3 | 5) + struct.pack("<f", value)
        if isinstance(value, int):
            return varint(number << 3) + varint(value)
        return varint(number << 3 | 2) + varint(len(value)) + value

    def make(trainer, normalizer, config, text, pieces=()):
        all_pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), ("\u2581", -1.0, 1), ("a", -2.0, 1), ("b", -2.5, 1), ("ab", -3.0, 1),
                      ("\u2581a", -3.5, 1), ("<t>", 0.0, 4), *pieces]
        model = b"".join(field(1, field(1, text.encode()) + field(2, score) + field(3, kind)) for text, score, kind in all_pieces)
        model += field(2, b"".join(field(*entry) for entry in trainer)) + field(3, b"".join(field(*entry) for entry in normalizer))
        return config.encode() + b"\0" + text.encode() + b"\0" + model

    charsmap = struct.pack("<III", 8, 0x400, 0x141) + b"b\0"
    write("tokenizer_model", "unigram", make([(3, 1)], [], "{}", "ab  a<t>\u00e9b "))
    write("tokenizer_model", "bpe", make([(3, 2)], [(4, 0)], '{"add_eos_token":true}', "ab  a<t>\u00e9\u00e9"))
    write("tokenizer_model", "suffix", make([(24, 1)], [(5, 0), (2, charsmap)], '{"tokenizer_class":"T5Tokenizer"}', "ab<s>"))
    write("tokenizer_model", "added", make([], [(3, 0)], '{"added_tokens_decoder":{"9":{"content":"<x>"},"4":{"content":"a","special":true}}}', "ab<x>a"))


def config_json():
    """Writes inputs that are a config.json each. One of them also has a zero byte and a generation_config.json."""
    base = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "intermediate_size": 96, "vocab_size": 100, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "eos_token_id": [1, 2]}
    write("config_json", "llama", json.dumps(base) + '\0{"eos_token_id":7}')
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 256}
    write("config_json", "rope", json.dumps({**base, "rope_scaling": llama3, "rope_theta": 5e5}))
    write("config_json", "mistral", json.dumps({**base, "model_type": "mistral", "sliding_window": 32, "head_dim": 16, "tie_word_embeddings": True}))
    experts = {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_group": 4, "topk_group": 2,
               "n_shared_experts": 2, "routed_scaling_factor": 1.5, "first_k_dense_replace": 1}
    write("config_json", "groups", json.dumps({**base, **experts, "model_type": "glm4_moe"}))
    sparse = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 40,
              "mlp_only_layers": [0], "decoder_sparse_step": 1}
    write("config_json", "sparse", json.dumps({**base, **sparse, "model_type": "qwen2_moe"}))
    write("config_json", "gpt_oss", json.dumps({**base, "model_type": "gpt_oss", "num_local_experts": 4, "num_experts_per_tok": 2,
                                                "rope_parameters": {**llama3, "rope_type": "yarn"}, "swiglu_limit": 7.0,
                                                "quantization_config": {"quant_method": "mxfp4"}}))
    write("config_json", "linear", json.dumps({**base, "rope_parameters": {"type": "linear", "factor": 2, "rope_theta": 1e4}}))


def chat_template():
    """Writes a template, a zero byte, and the user's text."""
    for name, source in (
            ("loop", "{% for m in messages %}<|{{ m.role }}|>{{ m['content'] | trim }}\n{% endfor %}{% if add_generation_prompt %}<|a|>{% endif %}"),
            ("set", "{%- set ns = namespace(x=0, l=[]) -%}{%- for m in messages -%}{%- set ns.x = ns.x + loop.index0 -%}{%- endfor -%}{{ ns.x ~ bos_token }}"),
            ("macro", "{% macro f(a, b='x') %}{{ a }}{{ b|upper }}{% endmacro %}{{ f(messages[1].content) }}{{ f('q', b=1) }}"),
            ("filters", "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join(', ') }}{{ messages[2] | tojson(indent=2) }}"),
            ("slices", "{{ messages[1:][0].content[1:-1:2] }}{{ messages[-1].list | first }}{{ 7 // -2 % 3 ** 2 }}{{ 1.5 | int }}"),
            ("methods", "{{ messages[1].content.split('a')[0].strip().replace('b', 'c') }}{{ messages[0].get('x', 'y') }}{{ [1, 2] + [3] }}"),
            ("tests", "{% if messages is iterable and x is not defined or 'a' in 'abc' %}{{ (1 if true else 2) | string }}{% else %}b{% endif %}"),
            ("raise", "{{ raise_exception('no') }}"), ("text", "{% set x %}a{{ bos_token }}{% endset %}{{ x * 3 }}{{ x | length }}")):
        write("chat_template", name, source.encode() + b"\0hello <|a|> \xc3\xa9")


def block_ops():
    write("block_ops", "busy", bytes([1, 9, 4, 0, 0, 0, 0, 3, 20, 0, 4, 0] + [0, 0, 10, 1, 8, 0, 3, 1, 7, 0, 40, 0, 12, 12, 9] * 8))
    write("block_ops", "beams", bytes([0, 12, 4, 0, 0, 1, 0, 5, 20, 1, 4, 0] + [0, 0, 6, 2, 8, 3, 2, 1, 7, 0, 40, 3, 12, 9, 9, 12] * 7))
    write("block_ops", "swap", bytes([1, 4, 7, 0, 0, 0, 0, 5, 20, 2, 0, 0] + [0, 0, 12, 0, 15, 0, 3, 1, 7, 0, 40, 0, 12, 12, 9, 9] * 8))
    write("block_ops", "window", bytes([0, 9, 4, 3, 3, 1, 3, 3, 4, 3, 20, 0, 4, 0] + [0, 0, 20, 1, 15, 3, 3, 1, 7, 0, 40, 0, 12, 9] * 8))
    write("block_ops", "mixed", bytes((i * 89 + i // 5) % 256 for i in range(160)))


def text_stream():
    write("text_stream", "stops", b"\0\1\2stop\0\xe2\x82\xac\0" + bytes(b + 10 for b in b"a st") + bytes([0]) + b"\x01\x04" * 8)
    write("text_stream", "characters", b"\1\0\0" + b"".join(struct.pack(">H", c + 10) for c in (0xe2, 256, 257, 258, 0x80, 259, 260, 0xff)))
    write("text_stream", "plain", b"\1\1\1aa\0" + b"\0ka" * 20)


def answer_forms():
    """Writes one recorded answer for each pair of a call format and a reasoning format, and one made-up text for each call format. An input
    has one byte each for the call format, the reasoning format, the state at the start, whether a grammar enforces calls (only with a call
    format), whether the answer was cut, and the size of its pieces minus 1. The answer's text follows."""
    with open(os.path.join(ROOT, "coordinator", "text", "answers", "answer_format.cc"), encoding="utf-8") as f:
        lists = re.findall(r"constexpr Name<\w+> \w+\[\] = \{(.*?)\n\};", f.read(), re.S)
    tools, reasoning = (re.findall(r'\{"(\w+)", ', names) for names in lists)
    with open(os.path.join(ROOT, "tests", "golden", "answers.json"), encoding="utf-8") as f:
        answers = json.load(f)
    seen = set()
    for answer in answers:
        forms = answer["tools"], answer["reasoning"]
        if forms in seen or not answer["text"].isascii() or len(answer["text"]) > 400:
            continue
        seen.add(forms)
        start = ("undecided", "inside", "none").index(answer.get("start", "none"))
        head = [tools.index(forms[0]), reasoning.index(forms[1]), start] + ([0] if forms[0] != "none" else []) + [0, 2]
        write("answer_forms", "-".join(forms), bytes(head) + answer["text"].encode())
    for number, name in enumerate(tools):
        write("answer_forms", f"marks-{name}", bytes([number, 1, 0] + [0] * (number > 0) + [0, 1]) + bytes([0x80, 0xc0, 0x81, 0xc3, 0x82, 0xd0, 0x83, 0xc8, 0x84, 0xca]))


def gate_words():
    """Writes messages of the CURVE handshake. An input has one byte for the kind of message (of five), two bytes for the offset at which
    the message is cut, and the message."""
    greeting = b"\xff" + bytes(7) + b"\1\x7f\3\1CURVE" + bytes(47)
    short = lambda name, size: bytes([4, size]) + bytes([len(name)]) + name + bytes(size - 1 - len(name))
    long = lambda name, size: b"\6" + struct.pack(">Q", size) + bytes([len(name)]) + name + bytes(size - 1 - len(name))
    hello = bytes([4, 200]) + b"\5HELLO\1\0" + bytes(72) + b"k" * 120
    for which, name, word in ((0, "greeting", greeting), (1, "hello", hello), (2, "initiate", long(b"INITIATE", 300)),
                              (3, "welcome", short(b"WELCOME", 168)), (4, "ready", short(b"READY", 60)),
                              (4, "error", bytes([4, 10]) + b"\5ERROR\3400")):
        write("gate_words", name, bytes([which, 0, 9]) + word)
        write("gate_words", name + "-behind", bytes([which, 1, 44]) + word + hello)
    write("gate_words", "huge", b"\2\0\2" + b"\6" + b"\xff" * 8 + b"\x08INITIATE")


for make in (http_head, json_request, frame_decode, plan_apply, yaml_topology, safetensors, gguf, tokenizer_json, tokenizer_model,
             config_json, chat_template, block_ops, text_stream, answer_forms, gate_words):
    make()
