#!/usr/bin/env python3
"""Loads, swaps and unloads LoRA adapters in a loop while clients send requests, and checks every answer and the memory.

  adapter_loop.py SECONDS [MODEL LORA_DIR ADAPTER ADAPTER]

Requests go to the base model, to two adapters that are loaded and unloaded, and to a name whose adapter is swapped in place. Every answer
must equal the answer that the adapter gives without other requests. 404 is right only while an adapter is unloaded. At the end no adapter's
memory is in use, and the processes take as much memory as after the first third of the time. Prints what happened; exit status 1: something
was wrong. QUIRE_LOOP_RANKS sets the number of workers (default 2).
"""
import json
import os
import random
import sys
import threading
import time
import urllib.error
import urllib.request

from server import ROOT, TINY, Server

LOAD, UNLOAD = "/v1/load_lora_adapter", "/v1/unload_lora_adapter"
MOST_GROWTH_KIB = 32 << 10


def operate(url, path, body, headers=None):
    """Returns (status, text) of an operator's request."""
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith(("RssAnon:",)))


class Loop:
    def __init__(self, server, directory, first, second):
        self.server, self.paths = server, {name: os.path.join(directory, name) for name in (first, second)}
        self.first, self.second = first, second
        self.prompts = [[5 + 3 * i + j for j in range(4 + 9 * i)] for i in range(4)]
        self.right, self.away = {}, {first: False, second: False}
        self.ending, self.counts, self.wrong = threading.Event(), {"answers": 0, "away": 0, "loads": 0, "swaps": 0, "unloads": 0}, []
        self.lock = threading.Lock()

    def ask(self, model, prompt):
        return self.server.post("/v1/completions", {"model": model, "prompt": prompt, "max_tokens": 12, "temperature": 0, "ignore_eos": True,
                                                    "detokenize": False, "return_token_ids": True})

    def operate(self, path, body):
        status, text = operate(self.server.admin_url, path, body)
        if status != 200:
            self.fail(f"{path} {body}: {status} {text}")

    def fail(self, what):
        self.wrong.append(what)
        self.ending.set()

    def learn(self):
        """Asks the base model and each adapter alone, and stores their answers in self.right."""
        for name in (None, self.first, self.second):
            model = name or self.server.base
            if name:
                self.operate(LOAD, {"lora_name": name, "lora_path": self.paths[name]})
            for i, prompt in enumerate(self.prompts):
                status, answer = self.ask(model, prompt)
                if status != 200:
                    return self.fail(f"{model}: {status} {answer}")
                self.right[name, i] = answer["choices"][0]["token_ids"]
        self.operate(LOAD, {"lora_name": "x", "lora_path": self.paths[self.first]})
        if all(self.right[self.first, i] == self.right[None, i] for i in range(len(self.prompts))):
            self.fail("the adapter changes no answer, so this loop would prove nothing")

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def client(self, seed):
        draws = random.Random(seed)
        while not self.ending.is_set():
            i = draws.randrange(len(self.prompts))
            name = draws.choice((None, self.first, self.second, "x"))
            may_be_away = name in self.away and self.away[name]
            status, answer = self.ask(name or self.server.base, self.prompts[i])
            may_be_away = may_be_away or (name in self.away and self.away[name])
            if status == 404 and may_be_away:
                self.count("away")
                continue
            if status != 200:
                return self.fail(f"{name}: {status} {answer}")
            allowed = [self.right[self.first, i], self.right[self.second, i]] if name == "x" else [self.right[name, i]]
            if answer["choices"][0]["token_ids"] not in allowed:
                return self.fail(f"{name}, prompt {i}: {answer['choices'][0]['token_ids']} instead of {allowed}")
            self.count("answers")

    def operator(self):
        draws = random.Random(1)
        while not self.ending.is_set():
            kind = draws.randrange(3)
            if kind == 0:
                self.operate(LOAD, {"lora_name": "x", "lora_path": self.paths[draws.choice((self.first, self.second))], "load_inplace": True})
                self.count("swaps")
                continue
            name = (self.first, self.second)[kind - 1]
            self.away[name] = True  # from now on clients may get 404 for this name
            self.operate(UNLOAD, {"lora_name": name})
            self.count("unloads")
            time.sleep(draws.random() * 0.05)
            self.operate(LOAD, {"lora_name": name, "lora_path": self.paths[name]})
            self.count("loads")
            time.sleep(0.02)
            self.away[name] = False

    def memory(self):
        return sum(resident_kib(pid) for pid in (self.server.process.pid, *self.server.worker_pids()))

    def run(self, seconds):
        self.learn()
        threads = [threading.Thread(target=self.client, args=(i,)) for i in range(6)] + [threading.Thread(target=self.operator)]
        for thread in threads:
            thread.start()
        self.ending.wait(seconds / 3)
        before = self.memory()
        self.ending.wait(seconds * 2 / 3)
        self.ending.set()
        for thread in threads:
            thread.join()
        for name in (*self.paths, "x"):
            self.operate(UNLOAD, {"lora_name": name})
        deadline = time.time() + 20
        while (left := self.server.get("/admin/status", admin=True)["adapters"]["used_bytes"]) > 0 and time.time() < deadline:
            time.sleep(0.05)
        growth = self.memory() - before
        if left > 0:
            self.wrong.append(f"{left} bytes of adapters are still in use")
        if growth > MOST_GROWTH_KIB:
            self.wrong.append(f"the processes grew by {growth} KiB")
        print(self.counts, f"{growth} KiB more than after the first third", *self.wrong, sep="\n")
        return 1 if self.wrong or min(self.counts[what] for what in ("answers", "loads", "swaps", "unloads")) == 0 else 0


def main():
    seconds = float(sys.argv[1])
    golden = os.path.join(ROOT, "tests", "golden", "adapters")
    model, directory, first, second = sys.argv[2:6] if len(sys.argv) > 2 else (TINY, golden, "gqa_all", "gqa_layers")
    with Server("--exact", "-tp", os.environ.get("QUIRE_LOOP_RANKS", "2"), "--lora-dir", directory, model=model) as server:
        server.base = server.get("/v1/models")["data"][0]["id"]
        return Loop(server, directory, first, second).run(seconds)


if __name__ == "__main__":
    sys.exit(main())
