"""Tests speculation as clients see it: every answer equals, bit for bit, the answer of a server without speculation,
even if a worker is killed in the middle. A replay of the journal must plan the same drafts."""
import array
import concurrent.futures
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

import verdict
from hybrids_test import Served, copy_with_tokenizer
from server import QUIRE, TINY, Server

ROUNDS = 20
REPEATS = [7, 8, 9, 10, 11, 12, 13] * 6
BODIES = [
    {"prompt": REPEATS, "max_tokens": 120, "temperature": 0, "logprobs": 2, "ignore_eos": True},
    {"prompt": REPEATS[:20], "max_tokens": 90, "temperature": 0.6, "seed": 3, "n": 2, "logprobs": 1, "ignore_eos": True},
    {"prompt": list(range(3, 60)), "max_tokens": 90, "temperature": 0, "repetition_penalty": 1.1, "frequency_penalty": 0.2,
     "logprobs": 1, "ignore_eos": True},
    {"prompt": [5] * 30, "max_tokens": 100, "temperature": 0, "stop": ["zz", "b"], "logprobs": 1},
    {"prompt": REPEATS, "max_tokens": 40, "temperature": 0, "min_tokens": 10, "logit_bias": {"9": 3.0}},
    {"prompt": REPEATS, "max_tokens": 20, "temperature": 0, "use_beam_search": True, "n": 2},
    {"prompt": REPEATS, "max_tokens": 60, "temperature": 0, "structured_outputs": {"regex": "(ab|cd){1,20}"}},
    {"prompt": REPEATS, "max_tokens": 30, "temperature": 0, "prompt_logprobs": 1},
    # An answer that may use only two tokens soon repeats itself.
    {"prompt": REPEATS, "max_tokens": 150, "temperature": 0, "allowed_token_ids": [9, 10], "logprobs": 1, "ignore_eos": True},
    {"prompt": REPEATS, "max_tokens": 150, "temperature": 0.4, "seed": 5, "allowed_token_ids": [9, 10, 11], "logprobs": 1,
     "ignore_eos": True},
]


def answers(server, bodies=BODIES, whole=None):
    """Returns the choices of all answers, and adds the whole answers to `whole`."""
    def ask(body):
        status, answer = server.post("/v1/completions", body, timeout=120)
        assert status == 200, answer
        if whole is not None:
            whole.append(answer)
        return answer["choices"]
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(ask, bodies))


def ask_until(enough, server, bodies, right=None, whole=None):
    """Sends the requests, and sends them again until `enough` returns True, at most ROUNDS times. Compares the answers with `right`, and
    returns the last ones. A server makes fewer drafts where its steps take unsteady times, so one round may have few drafts."""
    for _ in range(ROUNDS):
        got = answers(server, bodies, whole)
        for body, choices, wanted in zip(bodies, got, right or got):
            assert choices == wanted, (body, choices, wanted)
        if enough():
            return got
    raise AssertionError(f"too few guesses in {ROUNDS} rounds: {counts(server)}, right ones {accepted_by_method(server)}")


def kill_a_worker_while(server, number, bodies, right):
    """Sends the requests, kills the worker of this number at the first draft, and compares the answers."""
    drafts = counts(server)[0]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        again = pool.submit(answers, server, bodies)
        while counts(server)[0] == drafts and not again.done():
            time.sleep(0.002)
        os.kill(server.worker_pids()[number], signal.SIGKILL)
        for body, got, wanted in zip(bodies, again.result(), right):
            assert got == wanted, (body, got, wanted)
    answers(server, bodies[:1])  # until the group is whole again
    assert server.get("/admin/status", admin=True)["epoch"] == 2


def counts(server):
    """Returns the numbers of drafts, draft tokens and accepted draft tokens of all replicas."""
    text = server.get("/metrics", admin=True)
    return [sum(float(value) for value in re.findall(rf"vllm:spec_decode_num_{name}_total\{{\S+ (\S+)", text))
            for name in ("drafts", "draft_tokens", "accepted_tokens")]


def accepted_by_method(server):
    """Returns, for each source of drafts, how many draft tokens became part of answers."""
    text = server.get("/metrics", admin=True)
    return {method: float(value) for method, value in
            re.findall(r'quire:accepted_draft_tokens_total\{.*method="(\w+)".*\} (\S+)', text)}


def predicting(bodies, right):
    """Returns the bodies with a prediction of each answer: its first choice's text, with a change in the middle."""
    predicted = []
    for body, choices in zip(bodies, right):
        text = choices[0]["text"]
        middle = len(text) // 2
        predicted.append({**body, "prediction": {"type": "content", "content": text[:middle] + "?" + text[middle + 2:]}})
    return predicted


def told(whole):
    """Returns the number of draft tokens for all answers, and how many of them are in the answers."""
    details = [answer["usage"]["completion_tokens_details"] for answer in whole]
    accepted = sum(each["accepted_prediction_tokens"] for each in details)
    return accepted + sum(each["rejected_prediction_tokens"] for each in details), accepted


class DraftsTest(unittest.TestCase):
    def test_answers_keep_their_bits_with_drafts_a_killed_worker_and_a_replay(self):
        with Server("-tp", "2", "--speculative-config", '{"method": "off"}', model=TINY) as plain:
            right = answers(plain)
            self.assertEqual(counts(plain), [0, 0, 0])
        with Server("-tp", "2", model=TINY) as by_default:
            whole, by_method = [], lambda: accepted_by_method(by_default)
            ask_until(lambda: by_method()["ngram"] + by_method()["suffix"] > 20, by_default, BODIES, right, whole)
            ask_until(lambda: by_method()["prediction"] > 50, by_default, predicting(BODIES, right), right, whole)
            self.assertEqual(tuple(counts(by_default)[1:]), told(whole))
        with tempfile.TemporaryDirectory(prefix="quire-drafts-") as journal:
            speculation = '{"method": "suffix", "num_speculative_tokens": 6, "disable_by_batch_size": 16}'
            with Server("-tp", "2", "--speculative-config", speculation, "--journal", os.path.join(journal, "j"), model=TINY) as server:
                whole = []
                ask_until(lambda: min(accepted_by_method(server)[method] for method in ("ngram", "suffix")) > 20, server, BODIES, right, whole)
                ask_until(lambda: accepted_by_method(server)["prediction"] > 20, server, predicting(BODIES, right), right, whole)
                _, tokens, accepted = counts(server)
                self.assertEqual((tokens, accepted), told(whole))
                guessed = next(answer["id"] for answer in whole if told([answer])[1] > 0)
                by_method = accepted_by_method(server)
                self.assertEqual((by_method["draft_model"], by_method["mtp"]), (0, 0))
                self.assertEqual(sum(by_method.values()), accepted)
                status = server.get("/admin/status", admin=True)
                setting, seen = status["settings"]["speculative_config"], status["speculation"]
                self.assertEqual((setting["method"], setting["num_speculative_tokens"]), ("suffix", 6))
                self.assertEqual((seen["tokens"], seen["accepted"], len(seen["accepted_by_position"])), (tokens, accepted, 6))
                self.assertEqual(sum(seen["accepted_by_position"]), accepted)
                self.assertEqual(seen["accepted_by_position"], sorted(seen["accepted_by_position"], reverse=True))
                self.assertEqual(sum(each["accepted"] for each in seen["methods"].values()), accepted)
                self.assertTrue(0 < seen["earlier_answers_bytes"] < 1 << 20, seen)
                kill_a_worker_while(server, 1, BODIES, right)
            replay = subprocess.run([QUIRE, "replay", "--journal", os.path.join(journal, "j")], capture_output=True, text=True,
                                    stdin=subprocess.DEVNULL, timeout=120)
            self.assertEqual(replay.returncode, 0, replay)
            self.assertIn("every plan is the same", replay.stdout)
            explained = subprocess.run([QUIRE, "explain", "--journal", os.path.join(journal, "j"), guessed], capture_output=True, text=True,
                                       stdin=subprocess.DEVNULL, timeout=120)
            self.assertRegex(explained.stdout, r"request \d+ \d+ of \d+ tokens guessed from (its own text|earlier answers) were right")


class HybridDraftsTest(unittest.TestCase):
    """Tests models whose layers have recurrent states."""
    # The golden models have other tokens than the tokenizer of the test, so in these tests only the requests with predictions depend on
    # texts.
    BODIES = [body for body in BODIES if not {"stop", "structured_outputs", "prompt_logprobs"} & set(body)]

    def test_answers_of_hybrids_keep_their_bits_with_drafts_and_with_a_killed_worker(self):
        for model, method in (("qwen35", "suffix"), ("lfm2", "auto"), ("granitehybrid", "ngram")):
            speculation = json.dumps({"method": method, "num_speculative_tokens": 6, "disable_by_batch_size": 16})
            flags = ["-tp", "2", "--num-kv-blocks", "2000", "--speculative-config", speculation]
            with self.subTest(model):
                with Served(model, *flags[:4], "--speculative-config", '{"method": "off"}') as plain:
                    right = answers(plain, self.BODIES)
                    without = plain.get("/admin/status", admin=True)["ranks"]
                with Served(model, *flags) as server:
                    whole = []
                    ask_until(lambda: counts(server)[2] > 20, server, self.BODIES, right, whole)
                    self.assertEqual(tuple(counts(server)[1:]), told(whole))
                    self.check_memory(server, without, flags)
                    kill_a_worker_while(server, 1, self.BODIES, right)

    def check_memory(self, server, without, flags):
        """Checks that the input rows that workers store while a state waits for the verification of drafts count as buffers of a step, in
        the server and in the plan."""
        ranks = server.get("/admin/status", admin=True)["ranks"]
        planned = subprocess.run([QUIRE, "plan", "--no-speed", "--json", "--exact", "--model", server.folder.name, *flags], capture_output=True,
                                 text=True, stdin=subprocess.DEVNULL, timeout=60)
        for rank, before, plan in zip(ranks, without, json.loads(planned.stdout)["ranks"]):
            self.assertGreater(rank["step_bytes"], before["step_bytes"])
            for part in ("weight_bytes", "step_bytes"):
                self.assertEqual(plan[part], rank[part], part)


def other_model(folder):
    """Returns the path of a model with the vocabulary of TINY and other weights: the numbers of each matrix are reversed."""
    path = os.path.join(folder, "other")
    shutil.copytree(TINY, path)
    with open(os.path.join(path, "model.safetensors"), "r+b") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        for name, tensor in json.loads(file.read(size)).items():
            if len(tensor.get("shape", [])) < 2:
                continue
            begin, end = tensor["data_offsets"]
            file.seek(8 + size + begin)
            numbers = array.array({4: "I", 2: "H"}[(end - begin) // (tensor["shape"][0] * tensor["shape"][1])], file.read(end - begin))
            numbers.reverse()
            file.seek(8 + size + begin)
            file.write(numbers.tobytes())
    return path


def draft_config(path):
    return json.dumps({"method": "draft_model", "model": path, "num_speculative_tokens": 4, "disable_by_batch_size": 16})


class DraftModelTest(unittest.TestCase):
    GREEDY = [{"prompt": REPEATS[i:], "max_tokens": 120, "temperature": 0, "logprobs": 2, "ignore_eos": True} for i in range(3)]

    def test_answers_keep_their_bits_with_any_draft_model_also_with_a_killed_worker_and_a_replay(self):
        bodies = BODIES[:8] + self.GREEDY
        with tempfile.TemporaryDirectory(prefix="quire-drafts-") as folder:
            journal = os.path.join(folder, "j")
            for workers, draft, flags in (("2", other_model(folder), []), ("3", TINY, ["--journal", journal])):
                with Server("-tp", workers, model=TINY) as plain:
                    right = answers(plain, bodies)
                with Server("-tp", workers, "--speculative-config", draft_config(draft), *flags, model=TINY) as server:
                    whole, goal = [], 2 if draft == TINY else 1  # another model's drafts are seldom right, so they are only counted
                    ask_until(lambda: counts(server)[goal] > 50, server, bodies, right, whole)
                    _, tokens, accepted = counts(server)
                    self.assertEqual((tokens, accepted), told(whole))
                    self.assertEqual(accepted_by_method(server)["draft_model"], accepted)
                    self.assertEqual(server.get("/admin/status", admin=True)["settings"]["speculative_config"]["model"], draft)
                    if draft == TINY:
                        guessed = next(answer["id"] for answer in whole if told([answer])[1] > 0)
                        kill_a_worker_while(server, 0, bodies, right)  # rank 0 has the draft model
                        continue
                    self.assertLess(accepted, 0.5 * tokens)
                    # A prediction comes before the model.
                    ask_until(lambda: accepted_by_method(server)["prediction"] > 20, server, predicting(bodies, right))
            replay = subprocess.run([QUIRE, "replay", "--journal", journal], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
            self.assertEqual(replay.returncode, 0, replay)
            self.assertIn("every plan is the same", replay.stdout)
            explained = subprocess.run([QUIRE, "explain", "--journal", journal, guessed], capture_output=True, text=True,
                                       stdin=subprocess.DEVNULL, timeout=120)
            self.assertRegex(explained.stdout, r"request \d+ \d+ of \d+ tokens guessed by the draft model were right")

    def test_guesses_are_right_when_the_draft_model_is_the_served_model_also_after_a_reshard_and_with_blocks_from_a_disk(self):
        def ask(server):
            before = counts(server)
            got = ask_until(lambda: counts(server)[2] > before[2] + 20, server, self.GREEDY)
            tokens, accepted = (now - then for now, then in zip(counts(server)[1:], before[1:]))
            return got, accepted / tokens
        with Server(model=TINY) as plain:
            alone = plain.get("/admin/status", admin=True)["ranks"][0]
            right = answers(plain, self.GREEDY)
        with tempfile.TemporaryDirectory(prefix="quire-drafts-") as folder:
            flags = ["--speculative-config", draft_config(TINY), "--kv-disk", os.path.join(folder, "kv")]
            with Server(*flags, model=TINY) as server:
                got, share = ask(server)
                self.assertEqual(got, right)
                self.assertGreaterEqual(share, 0.9, "the same weights draw the same tokens")
                rank = server.get("/admin/status", admin=True)["ranks"][0]
                for part in ("kv_bytes_per_block", "weight_bytes"):
                    self.assertGreaterEqual(rank[part], 2 * alone[part], part)
                planned = subprocess.run([QUIRE, "plan", "--no-speed", "--json", "--model", TINY, *flags[:2]], capture_output=True, text=True,
                                         stdin=subprocess.DEVNULL, timeout=60)
                planned = json.loads(planned.stdout)["ranks"][0]
                self.assertEqual((planned["block_bytes"], planned["weight_bytes"]), (rank["kv_bytes_per_block"], rank["weight_bytes"]))
                self.assertEqual(server.post("/admin/reshard", {"tensor": 2}, admin=True)[0], 200)
                self.assertGreater(ask(server)[1], 0.8, "two ranks round a few tokens otherwise than the draft model")
            with Server(*flags, model=TINY) as server:
                got, share = ask(server)
                self.assertEqual(got, right)
                self.assertGreaterEqual(share, 0.9)
                found = re.search(r"(?m)^quire:kv_disk_found_blocks_total\S* (\S+)$", server.get("/metrics", admin=True))
                self.assertGreater(float(found.group(1)), 0)

    def test_a_draft_model_with_other_tokens_or_without_files_is_refused_by_name(self):
        with tempfile.TemporaryDirectory(prefix="quire-drafts-") as folder:
            path = os.path.join(folder, "tokens")
            shutil.copytree(TINY, path)
            tokenizer = os.path.join(path, "tokenizer.json")
            with open(tokenizer, encoding="utf-8") as file:
                data = json.load(file)
            vocab = data["model"]["vocab"]
            first, second = [token for token in vocab if len(token) == 1 and token.isalpha()][:2]
            vocab[first], vocab[second] = vocab[second], vocab[first]
            with open(tokenizer, "w", encoding="utf-8") as file:
                json.dump(data, file)
            for draft, problem in ((path, f"{path} cannot guess for {TINY}: token {min(vocab[first], vocab[second])} is"),
                                   ("/nowhere", "/nowhere")):
                refused = subprocess.run([QUIRE, "serve", "--model", TINY, "--speculative-config", draft_config(draft)],
                                         capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
                self.assertEqual(refused.returncode, 2, refused)
                self.assertIn(problem, refused.stderr)


def with_prediction_layer(name, folder):
    """Copies a golden model, with the prediction layer that make_mtp_golden.py made for it and a tokenizer, into the folder. Returns
    the copy's path."""
    golden = os.path.dirname(os.path.dirname(TINY))
    path = os.path.join(folder, name)
    os.mkdir(path)
    copy_with_tokenizer(name, path)
    os.rename(os.path.join(path, "model.safetensors"), os.path.join(path, "model-1.safetensors"))
    shutil.copy(os.path.join(golden, "mtp", f"{name}.safetensors"), os.path.join(path, "model-2.safetensors"))
    with open(os.path.join(path, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        json.dump({"weight_map": {"model": "model-1.safetensors", "layer": "model-2.safetensors"}}, file)
    return path


class PredictionLayerTest(unittest.TestCase):
    MTP = json.dumps({"method": "mtp", "num_speculative_tokens": 3, "disable_by_batch_size": 16})
    # Few draft tokens of a layer with random weights are right, but after many equal tokens many are.
    BODIES = [{"prompt": [5 + i] * 30, "max_tokens": 60, "temperature": 0, "logprobs": 2, "ignore_eos": True} for i in range(4)] + [
        {"prompt": list(range(3, 60)), "max_tokens": 40, "temperature": 0.7, "seed": 3, "n": 2, "logprobs": 1, "ignore_eos": True}]

    def test_answers_keep_their_bits_with_a_prediction_layer_also_with_a_killed_worker_and_a_replay(self):
        with tempfile.TemporaryDirectory(prefix="quire-mtp-") as folder:
            for name, workers in (("deepseekv3", "2"), ("qwen3next", "1")):
                model, journal = with_prediction_layer(name, folder), os.path.join(folder, f"{name}.journal")
                with Server("-tp", workers, model=model) as plain:
                    right = answers(plain, self.BODIES)
                    alone = plain.get("/admin/status", admin=True)["ranks"]
                    self.assertIn("the files have layers that predict further tokens", plain.text())
                with Server("-tp", workers, "--speculative-config", self.MTP, "--journal", journal, model=model) as server:
                    whole = []
                    ask_until(lambda: counts(server)[1] > 20, server, self.BODIES, right, whole)
                    _, tokens, accepted = counts(server)
                    self.assertEqual((tokens, accepted), told(whole))
                    self.assertEqual(accepted_by_method(server)["mtp"], accepted)
                    status = server.get("/admin/status", admin=True)
                    self.assertEqual(status["settings"]["speculative_config"]["method"], "mtp")
                    self.assertEqual(status["speculation"]["methods"]["mtp"]["tokens"], tokens)
                    self.check_memory(status["ranks"], alone, model, workers)
                    kill_a_worker_while(server, 0, self.BODIES, right)
                replay = subprocess.run([QUIRE, "replay", "--journal", journal], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
                self.assertEqual(replay.returncode, 0, replay)
                self.assertIn("every plan is the same", replay.stdout)

    def check_memory(self, ranks, alone, model, workers):
        """Checks that rank 0 has the layer's weights and its part of the blocks, and that quire plan counts both."""
        planned = subprocess.run([QUIRE, "plan", "--no-speed", "--json", "--model", model, "-tp", workers, "--speculative-config", self.MTP],
                                 capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
        for rank, (with_layer, without, plan) in enumerate(zip(ranks, alone, json.loads(planned.stdout)["ranks"])):
            self.assertEqual((plan["block_bytes"], plan["weight_bytes"]), (with_layer["kv_bytes_per_block"], with_layer["weight_bytes"]))
            for part in ("kv_bytes_per_block", "weight_bytes"):
                self.assertEqual(with_layer[part] > without[part], rank == 0, part)

    def test_method_mtp_is_refused_for_an_architecture_without_prediction_layers(self):
        for command in (["serve"], ["check"]):
            refused = subprocess.run([QUIRE, *command, "--model", TINY, "--speculative-config", self.MTP], capture_output=True, text=True,
                                     stdin=subprocess.DEVNULL, timeout=60)
            self.assertNotEqual(refused.returncode, 0, refused)
            self.assertIn(f"method mtp: {TINY}: the prediction layers of a llama are not supported", refused.stderr + refused.stdout)


if __name__ == "__main__":
    verdict.run_tests()
