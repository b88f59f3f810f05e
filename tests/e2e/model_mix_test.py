#!/usr/bin/env python3
"""Several models that do not fit together serve a mixed load with random switching. No request is lost, every answer has the tokens that
the model gives when it is the only model, and at each moment the workers take at most 5 % more memory than `quire plan` says for the loaded
models. New prompts fill the KV pools meanwhile.

  model_mix_test.py                          the short form, with golden models (ctest)
  model_mix_test.py SECONDS MODEL MODEL...   for SECONDS, with these models; prints its numbers
"""
import concurrent.futures
import json
import os
import random
import sys
import tempfile
import threading
import time
import unittest

import verdict
from kv_disk_test import prompt_of
from model_life_test import sizes, workers_of
from models_test import NAMES, path_of
from server import Server

CLIENTS, PROMPTS, TOKENS, BLOCKS = 6, 6, 12, 120
FRESH = 400  # tokens of a prompt that fills the KV pool; five of them fill it
OWN_MEMORY = "ASAN_OPTIONS" not in os.environ  # False: a sanitizer takes memory that is not planned
LEAST = 30  # number of answers, however slow the machine is
PATIENCE = 600  # seconds that a request may wait for its model; long enough for busy machines


def settings_of(paths):
    """Returns the settings of these models: loaded on request, with blocks for a few prompts."""
    return [{"name": name, "path": path, "load": "request", "cache": {"num_blocks": BLOCKS}, "parallel": {"tensor": 1 + number % 2},
             "threads_per_worker": 1} for number, (name, path) in enumerate(paths.items())]


def start(models, **settings):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        json.dump({"models": models, "exact": True, "seed": 1, **settings}, f)
        f.flush()
        return Server(f.name)


def prompts_of(number):
    """Returns the prompts of one model. Prompts with even indices begin alike, and so do those with odd indices, so that they find each
    other's blocks."""
    return [prompt_of(40 + 70 * i, 1 + number + (i % 2) * 40, 97) for i in range(PROMPTS)]


def ask(server, name, prompt, **fields):
    body = {"model": name, "prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True, "detokenize": False,
            "return_token_ids": True, **fields}
    if fields.get("stream"):
        events = list(server.stream("/v1/completions", body, timeout=2 * PATIENCE))
        errors = [event["error"] for event in events if "error" in event]
        if errors:
            raise AssertionError(f"{name}: {errors}")
        return [t for event in events for t in event["choices"][0].get("token_ids") or []]
    status, answer = server.post("/v1/completions", body, timeout=2 * PATIENCE)
    if status != 200:
        raise AssertionError(f"{name}: {status} {answer}")
    return answer["choices"][0]["token_ids"]


def memory_of(pids):
    """Returns the bytes of memory of these processes. Memory that several of them share counts once."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as f:
                total += sum(int(line.split()[1]) << 10 for line in f if line.startswith("Pss:"))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total


class Mix:
    def __init__(self, paths, seconds):
        self.models, self.names, self.seconds = settings_of(paths), list(paths), seconds
        self.size = sizes(self.models)
        taken = sorted(self.size.values())
        self.room = max(taken[-1] + taken[0], int(0.6 * sum(taken)))
        assert self.room < sum(taken), "the models fit together"
        self.problems, self.counts, self.samples, self.over = [], {"answers": 0, "orders": 0}, [], threading.Event()
        self.alone = {}  # bytes of each model's workers, measured without other models
        self.lock = threading.Lock()

    def references(self):
        """Returns the answers of each model when it is served alone. Also fills the model's KV pool, and records a problem if the model
        then takes more than 5 % above its planned memory."""
        right = {}
        for number, model in enumerate(self.models):
            name = model["name"]
            with start([{**model, "load": "start"}]) as server:
                right[name] = [ask(server, name, prompt) for prompt in prompts_of(number)]
                for seed in range(BLOCKS * 16 // FRESH + 1):
                    ask(server, name, prompt_of(FRESH, 1000 + seed, 97))
                self.alone[name] = memory_of(workers_of(server))
                if OWN_MEMORY and self.alone[name] > 1.05 * self.size[name]:
                    self.problems.append(f"{name} alone takes {self.alone[name]} bytes, and {self.size[name]} are planned")
        return right

    def client(self, server, right, seed):
        choice = random.Random(seed)
        while not self.over.is_set() and not self.problems:
            number = choice.randrange(len(self.names))
            name, which = self.names[number], choice.randrange(PROMPTS)
            try:
                if choice.random() < 0.25:
                    ask(server, name, prompt_of(FRESH, choice.randrange(1 << 30), 97))
                got = ask(server, name, prompts_of(number)[which], **({"stream": True} if choice.random() < 0.5 else {}))
                if got != right[name][which]:
                    self.problems.append(f"{name}: prompt {which} was answered with {got}, not {right[name][which]}")
            except Exception as error:
                self.problems.append(f"{name}: {error}")
            with self.lock:
                self.counts["answers"] += 1
            if choice.random() < 0.2:
                time.sleep(choice.random() * 0.3)

    def operator(self, server):
        choice = random.Random(0)
        while not self.over.wait(0.2 + choice.random()):
            verb = choice.choice(("sleep", "sleep", "wake", "unload"))
            status, answer = server.post(f"/admin/models/{choice.choice(self.names)}/{verb}", {}, timeout=2 * PATIENCE, admin=True)
            if status not in (200, 409):
                self.problems.append(f"{verb}: {status} {answer}")
            self.counts["orders"] += 1

    def watch(self, server):
        """Collects pairs (bytes that the workers take, bytes that are planned for the loaded models) until the run is over. Leaves out a
        pair if a model's state changed while it was measured."""
        def planned():
            page = server.get("/admin/models", admin=True)
            return page["memory"]["taken_bytes"], [(m["state"], m["loads"], m["load_failures"]) for m in page["models"]]

        while not self.over.wait(0.1):
            before = planned()
            memory = memory_of(workers_of(server))
            if planned() == before:
                self.samples.append((memory, before[0]))

    def run(self):
        right = self.references()
        with start(self.models, models_memory=str(self.room),
                   server={"limits": {"queue_seconds": PATIENCE}}) as server, \
                concurrent.futures.ThreadPoolExecutor(CLIENTS + 2) as pool:
            tasks = [pool.submit(self.client, server, right, seed) for seed in range(CLIENTS)]
            tasks += [pool.submit(self.operator, server), pool.submit(self.watch, server)]
            begin = time.monotonic()
            while not self.problems and (time.monotonic() < begin + self.seconds or self.counts["answers"] < LEAST):
                assert time.monotonic() < begin + self.seconds + 120, "too few answers"
                time.sleep(0.1)
            self.over.set()
            for task in tasks:
                task.result(timeout=2 * PATIENCE)
            states = server.get("/admin/models", admin=True)
            loads = {model["name"]: model["loads"] for model in states["models"]}
            failures = sum(model["load_failures"] for model in states["models"])
            reasons = [model["problem"] for model in states["models"] if model["problem"]]
            status = server.terminate()
        for memory, taken in self.samples:
            if OWN_MEMORY and memory > 1.05 * taken:
                self.problems.append(f"the workers take {memory} bytes, and {taken} are planned")
                break
        if max((taken for _, taken in self.samples), default=0) > self.room:
            self.problems.append("more is planned than there is room")
        if failures or status != 0:
            self.problems.append(f"{failures} starts failed: {reasons}; the server ended with {status}")
        return {"seconds": self.seconds, "answers": self.counts["answers"], "orders": self.counts["orders"], "loads": loads,
                "room_bytes": self.room, "planned_bytes": self.size,
                "samples": len(self.samples), "most_measured_bytes": max((memory for memory, _ in self.samples), default=0),
                "most_measured_of_planned": max((memory / taken for memory, taken in self.samples if taken), default=0),
                "measured_alone_bytes": self.alone, "most_planned_at_once": max((taken for _, taken in self.samples), default=0)}


class MixTest(unittest.TestCase):
    def test_models_that_do_not_fit_together_lose_no_request_and_take_no_more_than_planned(self):
        mix = Mix({name: path_of(model) for name, model in NAMES.items()}, 4)
        numbers = mix.run()
        self.assertEqual(mix.problems, [], numbers)
        self.assertGreaterEqual(numbers["answers"], LEAST)
        self.assertGreater(numbers["samples"], 0)
        self.assertGreater(sum(numbers["loads"].values()), len(NAMES))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        paths = {f"{os.path.basename(path.rstrip('/'))}-{number}": path for number, path in enumerate(sys.argv[2:])}
        mix = Mix(paths, float(sys.argv[1]))
        print(json.dumps(mix.run(), indent=1))
        print("\n".join(mix.problems) or "no request was lost, every answer is right, and the memory holds")
        sys.exit(1 if mix.problems else 0)
    verdict.run_tests()
