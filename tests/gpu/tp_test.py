#!/usr/bin/env python3
"""Tests tensor parallelism on one GPU through HTTP: a random model on 1, 2 and 3 ranks with real NCCL, against the CPU backend. Several
ranks share the card: a test mode, in which nothing is timed. Greedy log-probabilities must agree as long as the tokens do. Usage:
tp_test.py PACKED_FOLDER, in the environment of tests/gpu/run."""
import json
import os
import random
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

PROMPTS = ["a", "the quick brown fox jumps over the lazy dog", "0123456789" * 20]
NEW_TOKENS = 24
TOLERANCE = 0.06  # tolerance of a log-probability: activations are bf16


def bf16(generator, count, exponent):
    """Returns `count` random numbers with random signs and mantissas and one exponent, as little-endian bytes."""
    ones = int.from_bytes(b"\x01\x00" * count, "little")
    bits = generator.getrandbits(16 * count) & (ones * 0x807F) | (ones * (exponent << 7))
    return bits.to_bytes(2 * count, "little")


def make_model(folder, tokenizer):
    """Writes a random Llama with 6 heads over 3 KV heads of size 64, which divides over 1, 2 and 3 ranks (unevenly over 2)."""
    hidden, layers, heads, kv, dim, mlp, vocab = 256, 2, 6, 3, 64, 288, 257
    generator = random.Random(1)
    tensors, data = {}, b""

    def add(name, shape, exponent):
        nonlocal data
        count = 1
        for n in shape:
            count *= n
        values = bf16(generator, count, exponent)
        tensors[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values

    def matrix(name, rows, cols):
        add(name + ".weight", [rows, cols], 123)  # magnitudes 1/16 to 1/8, about 1.5 / sqrt(256)

    add("model.embed_tokens.weight", [vocab, hidden], 126)
    for i in range(layers):
        layer = f"model.layers.{i}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors_before = len(data)
            data += b"\x80\x3f" * hidden  # bf16 ones
            tensors[layer + name + ".weight"] = {"dtype": "BF16", "shape": [hidden], "data_offsets": [tensors_before, len(data)]}
        matrix(layer + "self_attn.q_proj", heads * dim, hidden)
        matrix(layer + "self_attn.k_proj", kv * dim, hidden)
        matrix(layer + "self_attn.v_proj", kv * dim, hidden)
        matrix(layer + "self_attn.o_proj", hidden, heads * dim)
        matrix(layer + "mlp.gate_proj", mlp, hidden)
        matrix(layer + "mlp.up_proj", mlp, hidden)
        matrix(layer + "mlp.down_proj", hidden, mlp)
    begin = len(data)
    data += b"\x80\x3f" * hidden
    tensors["model.norm.weight"] = {"dtype": "BF16", "shape": [hidden], "data_offsets": [begin, len(data)]}
    matrix("lm_head", vocab, hidden)
    head = json.dumps(tensors).encode()
    head += b" " * (-len(head) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(len(head).to_bytes(8, "little") + head + data)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
              "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": dim,
              "intermediate_size": mlp, "vocab_size": vocab, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
              "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 1}
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)
    for name in os.listdir(tokenizer):
        shutil.copy(os.path.join(tokenizer, name), folder)


def serve(folder, backend, ranks):
    """Serves the prompts; returns [(tokens, log-probabilities)]."""
    from server import Server
    topology = {"model": {"path": os.path.join(folder, "model"), "name": "random"}, "backend": backend,
                "parallel": {"tensor": ranks}, "cache": {"memory_bytes": "64MiB"}}
    if backend == "cuda":
        topology["nodes"] = [{"host": "localhost", "devices": [0] * ranks}]
    path = os.path.join(folder, f"{backend}-{ranks}.yaml")
    with open(path, "w") as f:
        json.dump(topology, f)  # JSON is valid YAML
    answers = []
    with Server(path, wait=False) as server:
        server.wait_until_ready(60)
        for prompt in PROMPTS:
            status, answer = server.post("/v1/completions", {"model": "random", "prompt": prompt, "max_tokens": NEW_TOKENS,
                                                             "temperature": 0, "logprobs": 1, "ignore_eos": True})
            if status != 200:
                raise AssertionError(f"{backend}, {ranks} ranks: {status} {answer}")
            logprobs = answer["choices"][0]["logprobs"]
            answers.append((logprobs["tokens"], logprobs["token_logprobs"]))
        said = [line for line in server.text().splitlines() if "collectives" in line or "NVIDIA" in line]
        print(f"{backend}, {ranks} ranks: served; {'; '.join(said[:2])}", flush=True)
    return answers


def differences(got, want, what):
    """Returns the errors in `got`, as texts. After tokens that differ, a prompt is not compared further: two tokens may have been about
    equally likely."""
    wrong, compared, total = [], 0, 0
    for prompt, ((tokens, logprobs), (ref_tokens, ref_logprobs)) in enumerate(zip(got, want)):
        total += len(ref_tokens)
        if len(tokens) != len(ref_tokens):
            wrong.append(f"{what}, prompt {prompt}: {len(tokens)} tokens instead of {len(ref_tokens)}")
            continue
        for t in range(len(ref_tokens)):
            compared += 1
            if not abs(logprobs[t] - ref_logprobs[t]) <= TOLERANCE:
                wrong.append(f"{what}, prompt {prompt}, token {t}: log-probability {logprobs[t]} instead of {ref_logprobs[t]}")
                break
            if tokens[t] != ref_tokens[t]:
                break
    if compared * 2 < total:
        wrong.append(f"{what}: only {compared} of {total} tokens could be compared")
    return wrong


def main():
    packed = sys.argv[1]
    backends = sys.argv[2].split(",") if len(sys.argv) > 2 else ["cuda"]
    os.environ["QUIRE_TEST_BUILD"] = os.path.join(packed, "bin")
    with tempfile.TemporaryDirectory(prefix="quire-tp-") as folder:
        os.mkdir(os.path.join(folder, "model"))
        make_model(os.path.join(folder, "model"), os.path.join(packed, "tokenizer"))
        want = serve(folder, "cpu", 1)
        wrong, ran = [], 0
        for backend in backends:
            for ranks in (1, 2, 3):
                try:
                    wrong += differences(serve(folder, backend, ranks), want, f"{backend}, {ranks} ranks")
                except (AssertionError, OSError) as error:
                    wrong.append(f"{backend}, {ranks} ranks: {error}")
                ran += 1
    print("\n".join(wrong))
    print(f"{ran - len({w.split(',')[1] for w in wrong})} passed, {len({w.split(',')[1] for w in wrong})} failed")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
