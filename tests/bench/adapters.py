#!/usr/bin/env python3
"""adapters.py QUIRE MODEL [--rounds N] [--flags "..."] [--streams N] [--tokens N] [--prompt N] [--rank N] [--adapters N]: measures what
LoRA adapters cost. Makes adapters of random numbers for all linear matrices of a Llama (a directory with config.json; --flags
"--load-format dummy" gives it random weights), and starts one server with all of them. Sends concurrent streams in turns: in one turn all
to the base model, in another all to one adapter, and in another to N adapters in rotation. Prints a table in Markdown with a row for each
kind of turn. The table has the tokens per second (the median of the rounds), how much slower this is than the base model (the median of the
rounds, each compared with the base model's turns before and after it), and all rounds. It has the same numbers for the workers' processor
time, which other programs disturb less. Give each worker one thread, because a single thread never spins."""
import argparse
import concurrent.futures
import json
import os
import random
import shlex
import statistics
import struct
import sys
import tempfile
import time

from drafts import Server

MATRICES = {"self_attn.q_proj": ("hidden", "queries"), "self_attn.k_proj": ("hidden", "keys"), "self_attn.v_proj": ("hidden", "keys"),
            "self_attn.o_proj": ("queries", "hidden"), "mlp.gate_proj": ("hidden", "mlp"), "mlp.up_proj": ("hidden", "mlp"),
            "mlp.down_proj": ("mlp", "hidden")}


def numbers(count, draws):
    """Returns random float16 numbers of about 0.01 in magnitude."""
    return b"".join(struct.pack("<H", 0x2000 + (draws.getrandbits(1) << 15) + draws.getrandbits(10)) for _ in range(min(count, 65536))) * \
        (count // 65536 + 1)


def make(directory, config, rank, seed):
    draws = random.Random(seed)
    heads, dim = config["num_attention_heads"], config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    sizes = {"hidden": config["hidden_size"], "queries": heads * dim, "keys": config["num_key_value_heads"] * dim,
             "mlp": config["intermediate_size"]}
    head, data = {}, []
    at = 0
    for layer in range(config["num_hidden_layers"]):
        for module, (cols, rows) in MATRICES.items():
            for part, shape in (("A", [rank, sizes[cols]]), ("B", [sizes[rows], rank])):
                count = shape[0] * shape[1]
                head[f"base_model.model.model.layers.{layer}.{module}.lora_{part}.weight"] = {
                    "dtype": "F16", "shape": shape, "data_offsets": [at, at + 2 * count]}
                data.append(numbers(count, draws)[:2 * count])
                at += 2 * count
    os.mkdir(directory)
    text = json.dumps(head).encode()
    with open(f"{directory}/adapter_model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(data))
    with open(f"{directory}/adapter_config.json", "w", encoding="utf-8") as file:
        json.dump({"peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": "all-linear"}, file)


def processor_seconds(server):
    pids = [worker["pid"] for worker in json.load(server.open("/admin/status", admin=True))["ranks"]]
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            ticks += sum(int(word) for word in file.read().rpartition(")")[2].split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def turn(server, names, options, draws):
    """Returns the tokens per second of one turn, and the processor time per token."""
    bodies = [{"model": names[i % len(names)], "prompt": [draws.randrange(10, 1000) for _ in range(options.prompt)],
               "max_tokens": options.tokens, "temperature": 0, "ignore_eos": True, "detokenize": False} for i in range(options.streams)]
    begin, used = time.monotonic(), processor_seconds(server)
    with concurrent.futures.ThreadPoolExecutor(options.streams) as pool:
        for answer in pool.map(lambda body: json.load(server.open("/v1/completions", body)), bodies):
            assert answer["usage"]["completion_tokens"] == options.tokens, answer
    tokens = options.streams * options.tokens
    return tokens / (time.monotonic() - begin), (processor_seconds(server) - used) / tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("quire")
    parser.add_argument("model")
    parser.add_argument("--flags", default="")
    for name, usual in (("rounds", 3), ("streams", 32), ("tokens", 64), ("prompt", 64), ("rank", 16), ("adapters", 8)):
        parser.add_argument("--" + name, type=int, default=usual)
    options = parser.parse_args()
    with open(os.path.join(options.model, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    names = [f"lora{i}" for i in range(options.adapters)]
    with tempfile.TemporaryDirectory() as folder:
        for i, name in enumerate(names):
            make(f"{folder}/{name}", config, options.rank, i)
        listed = [word for name in names for word in ("--lora-modules", f"{name}={folder}/{name}")]
        server = Server(options.quire, options.model, [*shlex.split(options.flags), *listed])
        kinds = {"base": [server.model], "one adapter": names[:1], f"{options.adapters} adapters": names}
        draws, speeds = random.Random(1), {kind: [] for kind in kinds}
        costs, used = {kind: [] for kind in kinds}, {kind: [] for kind in kinds}
        try:
            for of in kinds.values():
                turn(server, of, options, draws)  # touches all pages
            for _ in range(options.rounds):
                for kind, of in list(kinds.items())[1:]:
                    before, mine, after = (turn(server, each, options, draws) for each in (kinds["base"], of, kinds["base"]))
                    speeds["base"] += [before[0], after[0]]
                    speeds[kind].append(mine[0])
                    costs[kind].append(1 - 2 * mine[0] / (before[0] + after[0]))
                    used[kind].append(2 * mine[1] / (before[1] + after[1]) - 1)
        finally:
            server.process.terminate()
            server.process.wait()
    print("| | tokens a second | cost | rounds | more processor time | rounds |\n| --- | ---: | ---: | --- | ---: | --- |")
    for kind, rounds in speeds.items():
        words = [f"{statistics.median(rounds):.0f}"]
        for parts in (costs[kind], used[kind]):
            words.append(f"{100 * statistics.median(parts):.1f} %" if parts else "")
            words.append(", ".join(f"{100 * part:.1f}" for part in parts))
        print(f"| {kind} | {' | '.join(words)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
