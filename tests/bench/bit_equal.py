#!/usr/bin/env python3
"""Compares the numbers that two builds compute on the CPU: tokens and log-probabilities of the same requests must be equal in every digit.
Run by hand; other programs may run at the same time.

  tests/bench/bit_equal.py BUILD OTHER-BUILD [--ranks 1,2,3] ["MODEL [OPTION...]"...]

A build is a folder with quire and quire-worker. Without MODEL, the script uses the models of tests/golden that have tokenizers, and random
models of the Llama and Mistral families in fp32, fp16 and bf16: unchanged, quantised, and with every type of KV cache. Requests are sent
one after another and all at the same time, with greedy sampling and with a seed, and ask for the 20 likeliest tokens at every position.
Prints a line for each model, its options and a number of ranks. Ends with status 1 if anything differs."""
import argparse
import concurrent.futures
import json
import os
import random
import shutil
import struct
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import server as e2e

GOLDEN = os.path.join(ROOT, "tests", "golden", "models")
VOCAB = 257  # vocabulary of the tokenizer in tests/golden/models/gqa
FORMATS = {"F32": lambda x: struct.pack("<f", x), "F16": lambda x: struct.pack("<e", x),
           "BF16": lambda x: struct.pack("<f", x)[2:]}


def write_model(folder, family, dtype, seed):
    """Writes a model with five query heads, so that two and three ranks get uneven parts, and with MLP columns that fill
    quantisation blocks."""
    hidden, layers, heads, kv, dim, mlp = 96, 3, 5, 5 if family == "mistral" else 1, 24, 224
    rng, tensors, data = random.Random(seed), {}, bytearray()

    def add(name, shape, centre, spread):
        begin = len(data)
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        for _ in range(count):
            data.extend(FORMATS[dtype](centre + spread * rng.uniform(-1, 1)))
        tensors[name + ".weight"] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, len(data)]}

    matrix = lambda name, rows, cols: add(name, [rows, cols], 0, 1.7 / cols ** 0.5)
    add("model.embed_tokens", [VOCAB, hidden], 0, 1)
    for i in range(layers):
        layer = f"model.layers.{i}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            add(layer + norm, [hidden], 1, 0.2)
        for name, rows in (("q", heads * dim), ("k", kv * dim), ("v", kv * dim)):
            matrix(f"{layer}self_attn.{name}_proj", rows, hidden)
        matrix(layer + "self_attn.o_proj", hidden, heads * dim)
        matrix(layer + "mlp.gate_proj", mlp, hidden)
        matrix(layer + "mlp.up_proj", mlp, hidden)
        matrix(layer + "mlp.down_proj", hidden, mlp)
    add("model.norm", [hidden], 1, 0.2)
    if family == "llama":
        matrix("lm_head", VOCAB, hidden)
    shutil.copytree(os.path.join(GOLDEN, "gqa"), folder, ignore=shutil.ignore_patterns("*.safetensors", "config.json"))
    head = json.dumps(tensors).encode()
    head += b" " * (-len(head) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + data)
    config = {"model_type": family, "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
              "num_key_value_heads": kv, "head_dim": dim, "intermediate_size": mlp, "vocab_size": VOCAB, "rms_norm_eps": 1e-5,
              "max_position_embeddings": 2048, "rope_theta": 50000.0, "hidden_act": "silu", "eos_token_id": 1,
              "tie_word_embeddings": family == "mistral"}
    if family == "mistral":
        config["sliding_window"] = 30
    else:
        config["rope_scaling"] = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                  "original_max_position_embeddings": 64}
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)


def usual_models(folder):
    """Returns [(model, options)]."""
    ways = []
    for seed, (family, dtype) in enumerate((f, d) for f in ("llama", "mistral") for d in FORMATS):
        path = os.path.join(folder, f"{family}-{dtype}")
        write_model(path, family, dtype, seed)
        ways.append((path, []))
    ways += [(os.path.join(folder, "llama-BF16"), options) for options in (
        ["--quantization", "int8"], ["--quantization", "int4"], ["--quantization", "int4", "--activations", "int8"],
        ["--kv-cache-dtype", "float16"], ["--kv-cache-dtype", "int8"])]
    return ways + [(os.path.join(GOLDEN, name), []) for name in ("gqa", "linear")]


def requests():
    """Yields requests with prompts of token ids that are in every model's vocabulary. Half of them share their beginnings; some are longer
    than a step."""
    rng = random.Random(7)
    common = [rng.randrange(2, VOCAB - 5) for _ in range(40)]
    for length in (1, 5, 16, 33, 100, 300, 700):
        for shared in (False, True):
            prompt = (common if shared else []) + [rng.randrange(2, VOCAB - 5) for _ in range(length)]
            yield {"model": "m", "prompt": prompt, "max_tokens": 16, "logprobs": 20, "ignore_eos": True, "seed": length,
                   "temperature": 0 if shared else 0.8}


def answers(build, model, options, ranks):
    e2e.QUIRE = os.path.join(os.path.abspath(build), "quire")
    flags = ["-tp", str(ranks), "--served-model-name", "m", "--max-model-len", "1024", "--num-kv-blocks", "700", *options]
    with e2e.Server(*flags, model=model) as server:
        bodies = list(requests())
        got = [server.post("/v1/completions", body) for body in bodies]
        with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
            got += list(pool.map(lambda body: server.post("/v1/completions", body), bodies))
    for status, answer in got:
        assert status == 200, answer
    # A token's log-probability depends on every logit. The spelling of tokens and texts depends only on the server.
    return [json.dumps(answer["choices"][0]["logprobs"]["token_logprobs"]) for _, answer in got]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs=2, metavar="BUILD")
    parser.add_argument("ways", nargs="*", metavar="MODEL [OPTION...]")
    parser.add_argument("--ranks", default="1,2,3")
    o = parser.parse_args()
    different = 0
    with tempfile.TemporaryDirectory(prefix="quire-bit-equal-") as folder:
        ways = [(way.split()[0], way.split()[1:]) for way in o.ways] or usual_models(folder)
        for model, options in ways:
            for ranks in map(int, o.ranks.split(",")):
                first, second = (answers(build, model, options, ranks) for build in o.builds)
                apart = sum(a != b for a, b in zip(first, second))
                different += apart
                print(" ".join([os.path.basename(model), *options]), f"| {ranks} ranks | {len(first)} answers |",
                      f"{apart} DIFFER" if apart else "equal", flush=True)
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
