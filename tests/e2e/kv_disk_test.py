"""Tests KV on disk (--kv-disk): cached blocks and pins survive the end of the server. With as many workers as before, answers are equal
bit for bit. With another number of workers, sums are rounded differently, whether or not there is a cache. Then tokens are equal, and
log-probabilities are nearly equal. Also tests broken files, limits of size and age, and archives of blocks."""
import collections
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import unittest

import verdict
from hybrids_test import Served
from server import MODELS, QUIRE, Server, wait_gone

BLOCK = 16


def prompt_of(count, start=1, vocabulary=143):
    """Returns `count` token ids. After every 50 tokens the sequence of ids is shifted by one, so that a prompt does not repeat itself."""
    return [3 + (i * 7 + i // 50 + start) % (vocabulary - 3) for i in range(count)]


def ask(server, prompt, tokens=16, **fields):
    status, answer = server.post("/v1/completions", {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True,
                                                     "detokenize": False, "return_token_ids": True, "logprobs": 3, **fields})
    assert status == 200, answer
    return answer


def said(answer):
    """Returns the parts of an answer that must be equal to the last bit: tokens and log-probabilities."""
    choice = answer["choices"][0]
    return choice["token_ids"], choice["logprobs"]["token_logprobs"], choice["logprobs"]["top_logprobs"]


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def block_files(directory):
    return [os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names if len(name) == 40]


class KvDiskTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="quire-kv-")
        self.disk = os.path.join(self.folder, "kv")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def serve(self, *flags, model="gqa", disk=True, **how):
        words = ("--block-size", str(BLOCK), "--threads-per-worker", "1", *(("--kv-disk", self.disk) if disk else ()), *flags)
        return Server(*words, model=os.path.join(MODELS, model), **how) if model == "gqa" else Served(model, *words)

    def wait_for_files(self, count, seconds=20):
        deadline = time.monotonic() + seconds
        while len(block_files(self.disk)) < count:
            self.assertLess(time.monotonic(), deadline, f"{len(block_files(self.disk))} of {count} blocks are on the disk")
            time.sleep(0.02)

    def kill(self, server):
        """Kills the server and its workers by SIGKILL, so that none of them can write anything more."""
        pids = server.worker_pids()
        for pid in [server.process.pid, *pids]:
            os.kill(pid, signal.SIGKILL)
        server.process.wait()
        self.assertFalse(wait_gone(pids, 10))

    def check_restart(self, workers_before, workers_after, *flags, model="gqa", length=1500, states=0, vocabulary=143):
        """Serves a conversation's first turn on `workers_before` workers, kills the server, and serves the next turn on `workers_after`
        workers."""
        prompt = prompt_of(length, vocabulary=vocabulary)
        with self.serve("-tp", str(workers_before), *flags, model=model) as server:
            first = ask(server, prompt, 32)
            turn = prompt + first["choices"][0]["token_ids"] + prompt_of(20, 5, vocabulary)
            self.wait_for_files((length + 31) // BLOCK + states)
            self.kill(server)
        with self.serve("-tp", str(workers_after), *flags, model=model, disk=False) as server:
            right = ask(server, turn)
            self.assertEqual(cached(right), 0)
        with self.serve("-tp", str(workers_after), *flags, model=model) as server:
            answer = ask(server, turn)
            self.expect(answer, right, same_bits=workers_before == workers_after)
            self.assertGreaterEqual(cached(answer), 0.95 * (length + 32))
            again = ask(server, turn)  # these blocks come from memory
            # If fewer blocks were worth fetching than are in memory now, another part of the prompt was computed.
            self.expect(again, answer, same_bits=cached(again) == cached(answer))
            other = ask(server, turn, cache_salt="another")
            self.assertEqual(cached(other), 0)
            self.assertEqual(said(other), said(right))

    def expect(self, answer, right, same_bits):
        if same_bits:
            return self.assertEqual(said(answer), said(right))
        self.assertEqual(said(answer)[0], said(right)[0])
        for got, wanted in zip(said(answer)[1], said(right)[1]):
            self.assertAlmostEqual(got, wanted, delta=0.002)

    def test_next_turn_keeps_its_bits_after_a_kill_on_as_many_workers(self):
        self.check_restart(2, 2)

    def test_next_turn_finds_its_blocks_after_a_kill_on_more_workers(self):
        self.check_restart(1, 3)
        modes = {stat.S_IMODE(os.stat(path).st_mode) for path in [*block_files(self.disk), os.path.join(self.disk, "secret")]}
        self.assertEqual(modes, {0o600})
        self.assertEqual(stat.S_IMODE(os.stat(self.disk).st_mode), 0o700)

    def test_next_turn_finds_its_blocks_after_a_kill_on_fewer_workers_with_int8_keys_and_values(self):
        self.check_restart(2, 1, "--kv-cache-dtype", "int8")

    def test_next_turn_of_a_model_with_windows_finds_its_blocks_on_another_number_of_workers(self):
        self.check_restart(2, 1, model="swa", length=600)

    # A hybrid's next turn begins at the state that was stored at the prompt's last full block: 992 of 1,032 tokens.
    def test_next_turn_of_a_hybrid_keeps_its_bits_after_a_kill_on_as_many_workers(self):
        self.check_restart(2, 2, model="qwen3next", length=1000, states=1, vocabulary=131)

    def test_next_turn_of_a_hybrid_with_a_delta_rule_finds_its_state_after_a_kill_on_more_workers(self):
        self.check_restart(1, 2, model="qwen3next", length=1000, states=1, vocabulary=131)

    def test_next_turn_of_a_hybrid_with_short_convolutions_finds_its_state_after_a_kill_on_fewer_workers(self):
        self.check_restart(3, 1, model="lfm2", length=1000, states=1, vocabulary=131)

    def test_next_turn_of_a_hybrid_with_state_spaces_that_share_a_head_finds_its_state_on_another_number_of_workers(self):
        self.check_restart(3, 2, model="granitehybridmoe", length=1000, states=1, vocabulary=131)

    def test_broken_and_foreign_states_are_misses_and_change_no_token(self):
        """Two prompts have nothing in common. The files of their states are swapped, or cut, or get a flipped bit; the files of their
        blocks stay intact."""
        prompts = [prompt_of(400, start, 131) for start in (1, 60)]
        with self.serve(model="lfm2") as server:
            answers = [ask(server, prompt) for prompt in prompts]
            self.wait_for_files(2 * (400 // BLOCK + 1))
            self.kill(server)
        sizes = collections.Counter(map(os.path.getsize, block_files(self.disk)))
        self.assertEqual(len(sizes), 2)
        states = [path for path in block_files(self.disk) if os.path.getsize(path) == min(sizes, key=sizes.get)]
        self.assertEqual(len(states), 2)
        kept = [pathlib.Path(path).read_bytes() for path in states]
        flipped = [text[:-1] + bytes([text[-1] ^ 1]) for text in kept]
        for made in (kept[::-1], flipped, [text[:-1] for text in kept], kept):
            for path, text in zip(states, made):
                with open(path, "wb") as f:
                    os.fchmod(f.fileno(), 0o600)
                    f.write(text)
            with self.serve(model="lfm2") as server:
                for prompt, right in zip(prompts, answers):
                    answer = ask(server, prompt)
                    self.assertEqual((said(answer), cached(answer)), (said(right), 384 if made is kept else 0))
                self.kill(server)

    def test_broken_files_are_misses_and_change_no_token(self):
        prompt = prompt_of(800)
        with self.serve() as server:
            right = ask(server, prompt)
            self.wait_for_files(len(prompt) // BLOCK)
            self.kill(server)
        for number, path in enumerate(sorted(block_files(self.disk))):
            with open(path, "r+b") as f:
                f.seek(number * 37 % os.path.getsize(path))
                byte = f.read(1)
                f.seek(-1, os.SEEK_CUR)
                f.write(bytes([byte[0] ^ 1])) if number % 2 else f.truncate()
        with self.serve() as server:
            answer = ask(server, prompt)
            self.assertEqual((said(answer), cached(answer)), (said(right), 0))

    def test_server_keeps_serving_when_the_kv_directory_vanishes(self):
        with self.serve() as server:
            right = ask(server, prompt_of(400))
            self.wait_for_files(400 // BLOCK)
            shutil.rmtree(self.disk)
            for start in range(3):
                ask(server, prompt_of(400, 20 + start))
            self.assertEqual(said(ask(server, prompt_of(400), cache_salt="new")), said(right))
            deadline = time.monotonic() + 10
            while "KV on disk" not in server.text():
                self.assertLess(time.monotonic(), deadline, server.text())
                time.sleep(0.05)
            self.assertEqual(server.text().count("KV on disk"), 1)

    def test_kv_disk_size_and_days_flags_bound_the_stored_files(self):
        with self.serve() as server:
            ask(server, prompt_of(160))
            self.wait_for_files(10)
        kept = block_files(self.disk)
        folder = os.path.dirname(kept[0])
        made = []
        for number, (mebibytes, days) in enumerate([(10, 0.1), (10, 0.05), (1, 3)]):
            made.append(os.path.join(folder, f"{number:040x}"))
            with open(made[-1], "wb") as f:
                os.fchmod(f.fileno(), 0o600)
                f.truncate(mebibytes << 20)
            when = time.time() - days * 86400
            os.utime(made[-1], (when, when))
        with self.serve("--kv-disk-size", "16MiB", "--kv-disk-days", "2") as server:
            settings = server.get("/admin/status", admin=True)["settings"]
            self.assertEqual((settings["kv_disk"], settings["kv_disk_bytes"], settings["kv_disk_days"]), (self.disk, 16 << 20, 2))
            self.assertEqual([os.path.exists(path) for path in made], [False, True, False])
            self.assertTrue(all(map(os.path.exists, kept)))
            page = server.get("/metrics", admin=True)
            self.assertIn(f'quire:kv_disk_blocks{{model_name="gqa"}} {len(kept) + 1}', page)
            self.assertIn('quire:kv_disk_removed_blocks_total{model_name="gqa"} 2', page)
            ask(server, prompt_of(160))
            self.assertIn('quire:kv_disk_found_blocks_total{model_name="gqa"} 9', server.get("/metrics", admin=True))

    def cache(self, *words):
        result = subprocess.run([QUIRE, "cache", *words], capture_output=True, text=True, timeout=60)
        return result.returncode, result.stdout + result.stderr

    def test_cache_command_lists_verifies_and_prunes(self):
        journal = os.path.join(self.folder, "journal")
        for _ in range(2):
            with self.serve("--journal", journal) as server:
                name = ask(server, prompt_of(160), 1)["id"]
                self.wait_for_files(10)
        story = subprocess.run([QUIRE, "explain", name, "--journal", journal], capture_output=True, text=True, timeout=60).stdout
        self.assertIn("blocks came back from --kv-disk: 144 tokens of its prompt are cached", story)
        replay = subprocess.run([QUIRE, "replay", "--journal", journal], capture_output=True, text=True, timeout=60).stdout
        self.assertIn("every plan is the same", replay)
        status, listed = self.cache("ls", self.disk)
        self.assertEqual(status, 0, listed)
        self.assertIn("10 blocks", listed)
        self.assertIn(os.path.join(MODELS, "gqa"), listed)
        self.assertEqual(self.cache("verify", self.disk), (0, "10 blocks are right, 0 are not\n"))
        broken = block_files(self.disk)[3]
        with open(broken, "r+b") as f:
            f.seek(-1, os.SEEK_END)
            byte = f.read(1)
            f.seek(-1, os.SEEK_END)
            f.write(bytes([byte[0] ^ 1]))
        status, said_of_it = self.cache("verify", self.disk)
        self.assertEqual(status, 1)
        self.assertIn(f"{broken}: not right", said_of_it)
        self.assertIn("9 blocks are right, 1 are not", said_of_it)
        self.assertEqual(self.cache("prune", self.disk)[0], 2)
        self.assertEqual(self.cache("frobnicate", self.disk)[0], 2)
        self.assertNotEqual(self.cache("ls", self.folder + "/nothing")[0], 0)
        self.assertFalse(os.path.exists(self.folder + "/nothing"))
        self.assertEqual(self.cache("prune", self.disk, "--size", "0")[0], 0)
        self.assertEqual(block_files(self.disk), [])

    def test_contradictory_kv_disk_settings_are_refused_at_the_start(self):
        os.mkdir(self.disk, 0o755)
        for flags, words in (((), "chmod 700"), (("--no-enable-prefix-caching",), "prefix_caching is false")):
            with self.serve(*flags, wait=False) as server:
                self.assertIn(server.process.wait(timeout=30), (1, 2))
                self.assertIn(words, server.text())

    def test_blocks_that_wait_for_the_disk_get_there_before_the_server_ends_or_changes_its_workers(self):
        prompt = prompt_of(1500)
        for end in ("the server ends", "the workers are replaced", "the model is unloaded"):
            with self.subTest(end):
                shutil.rmtree(self.disk, ignore_errors=True)
                with self.serve() as server:
                    ask(server, prompt, 1)
                    if end == "the server ends":
                        server.process.send_signal(signal.SIGTERM)
                        self.assertEqual(server.process.wait(timeout=60), 0)
                        self.assertEqual(len(block_files(self.disk)), 1500 // BLOCK)
                        continue
                    name = server.get("/v1/models")["data"][0]["id"]
                    path = "/admin/restart_workers" if end == "the workers are replaced" else f"/admin/models/{name}/unload"
                    self.assertEqual(server.post(path, {}, admin=True)[0], 200)
                    self.assertEqual(cached(ask(server, prompt, 1)), 1488)

    def export(self, archive, *words):
        """Exports the blocks of self.disk to the archive, and imports them into a new directory, as another machine would. The new
        directory becomes self.disk. Returns the output of the import."""
        passphrase = os.path.join(self.folder, "passphrase")
        with open(passphrase, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write("correct horse battery\n")
        seal = ("--passphrase-file", passphrase)
        status, text = self.cache("export", self.disk, archive, *seal, *words)
        self.assertEqual(status, 0, text)
        self.disk = archive + "-kv"
        status, text = self.cache("import", self.disk, archive, *seal)
        self.assertEqual(status, 0, text)
        return text

    def check_export(self, model, states, vocabulary, workers, salt=""):
        """Serves a conversation on 2 workers, copies its blocks to another directory by an archive, and serves the next turn from there
        on `workers` workers."""
        prompt = prompt_of(1000, vocabulary=vocabulary)
        with self.serve("-tp", "2", model=model) as server:
            first = ask(server, prompt, 32, cache_salt=salt)
            turn = prompt + first["choices"][0]["token_ids"] + prompt_of(20, 5, vocabulary)
            self.wait_for_files((1000 + 31) // BLOCK + states)
            self.kill(server)
        with self.serve("-tp", str(workers), model=model, disk=False) as server:
            right = ask(server, turn, cache_salt=salt)
        source = {os.path.basename(path) for path in block_files(self.disk)}
        self.assertIn(f"64 blocks and {states} states imported", self.export(os.path.join(self.folder, "archive")))
        self.assertFalse(source & {os.path.basename(path) for path in block_files(self.disk)}, "names tell no content")
        self.assertEqual(self.cache("verify", self.disk), (0, f"{64 + states} blocks are right, 0 are not\n"))
        with self.serve("-tp", str(workers), model=model) as server:
            self.assertEqual(cached(ask(server, turn, cache_salt=salt + "other")), 0)
            answer = ask(server, turn, cache_salt=salt)
            self.expect(answer, right, same_bits=workers == 2)
            self.assertGreaterEqual(cached(answer), 0.95 * (1000 + 32))

    def test_exported_blocks_are_found_on_another_machine_with_one_worker(self):
        self.check_export("gqa", 0, 143, workers=1)

    def test_exported_blocks_of_a_salt_keep_their_bits_on_another_machine_with_as_many_workers(self):
        self.check_export("gqa", 0, 143, workers=2, salt="tenant")

    def test_exported_states_of_a_hybrid_are_found_on_another_machine(self):
        self.check_export("qwen3next", 2, 131, workers=1)  # two states: after the prompt, and after 1,024 tokens

    def test_blocks_of_another_model_are_not_found_and_broken_archives_change_nothing(self):
        prompt, archive = prompt_of(400), os.path.join(self.folder, "archive")
        with self.serve() as server:
            ask(server, prompt)
            self.wait_for_files(400 // BLOCK)
            with open(os.path.join(self.disk, "secret"), "rb") as f:
                secret = f.read()
        other = os.path.join(self.folder, "other")
        os.mkdir(other, 0o700)
        with open(os.path.join(other, "secret"), "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(os.urandom(32))
        sealed = ("--secret-file", os.path.join(other, "secret"))
        self.assertEqual(self.cache("export", self.disk, archive)[0], 2, "neither a passphrase nor a secret")
        self.assertEqual(self.cache("export", self.disk, archive, *sealed, "--model", "swa")[0], 1)
        self.assertEqual(self.cache("export", self.disk, archive, *sealed, "--model", "gqa")[0], 0)
        self.assertEqual(self.cache("export", self.disk, archive, *sealed)[0], 1, "the file exists")
        right = pathlib.Path(archive).read_bytes()
        self.assertNotIn(secret, right)
        for number, wrong in enumerate((right[:-1], right[:len(right) // 2], right[:3], b"", right + b"x", right[:500] + b"x" + right[501:])):
            made = f"{archive}-{number}"
            pathlib.Path(made).write_bytes(wrong)
            status, text = self.cache("import", other, made)
            self.assertEqual((status, block_files(other)), (1, []), text)
        for words in (("--model", "swa"), ("--size", "0.0001")):
            self.assertEqual((self.cache("import", other, archive, *words)[0], block_files(other)), (1, []))
        self.assertEqual(self.cache("import", self.disk, archive)[0], 1, "sealed for another directory")
        self.assertEqual(self.cache("import", other, archive)[0], 0)
        self.disk = other
        with self.serve(model="swa") as server:
            self.assertEqual(cached(ask(server, prompt)), 0)
        with self.serve() as server:
            self.assertEqual(cached(ask(server, prompt)), 384)

    def test_pinned_prompts_are_pinned_again_after_a_kill(self):
        """Tests three pins on a server with few blocks: a named pin, a pin without a name, and a pin that is ended before the kill."""
        flags = ("--num-kv-blocks", "200")
        prompts = {name: prompt_of(330, start) for name, start in (("agent", 1), ("", 40), ("ended", 80))}
        with self.serve(*flags) as server:
            for name, prompt in prompts.items():
                ask(server, prompt, 1, cache_salt="s")
                order = {"prompt": prompt, "cache_salt": "s", "ttl_seconds": 3600, **({"name": name} if name else {})}
                status, pinned = server.post("/admin/pin", order, admin=True)
                self.assertEqual((status, pinned["pinned_tokens"]), (200, 320), pinned)
                self.assertEqual(pinned["name"] == name, bool(name))
            self.assertEqual(server.post("/admin/unpin", {"name": "ended"}, admin=True), (200, {"unpinned": True}))
            self.assertEqual(server.post("/admin/unpin", {"name": "ended"}, admin=True), (200, {"unpinned": False}))
            self.wait_for_files(3 * 20)
            self.wait_for_pins(2)
            right = ask(server, prompts["agent"], cache_salt="s")
            self.kill(server)
        with self.serve(*flags) as server:
            self.wait_until(lambda: len(self.pins(server)) == 2, "the prompts are not pinned again")
            self.assertEqual([pin["blocks"] for pin in self.pins(server)], [20, 20])
            self.assertIn("agent", [pin["name"] for pin in self.pins(server)])
            self.assertLessEqual(max(pin["seconds_left"] for pin in self.pins(server)), 3600)
            shutil.rmtree(os.path.dirname(block_files(self.disk)[0]))  # now only memory has the blocks
            for start in range(3):
                ask(server, prompt_of(1500, 100 + start), 1)  # takes every block that is not pinned
            answer = ask(server, prompts["agent"], cache_salt="s")
            self.assertEqual((said(answer), cached(answer)), (said(right), 320))
            self.assertEqual(cached(ask(server, prompts["ended"], cache_salt="s")), 0)

    def test_pins_come_back_with_new_workers_and_end_with_a_flush(self):
        prompt = prompt_of(330)
        with self.serve() as server:
            self.assertEqual(server.post("/admin/pin", {"prompt": prompt, "name": "x" * 200}, admin=True)[0], 400)
            ask(server, prompt, 1)
            self.assertEqual(server.post("/admin/pin", {"prompt": prompt, "name": "agent"}, admin=True)[0], 200)
            self.wait_for_files(20)
            os.kill(server.worker_pids()[0], signal.SIGKILL)
            self.wait_until(lambda: server.get("/admin/status", admin=True)["replicas"][0]["epoch"] > 1, "no new workers")
            self.wait_until(lambda: [(pin["name"], pin["blocks"]) for pin in self.pins(server)] == [("agent", 20)], "not pinned again")
            self.assertEqual(cached(ask(server, prompt, 1)), 320)
            self.wait_for_pins(1)
            # A pin of the same name replaces the old pin, which stays if the new pin fails.
            self.assertEqual(server.post("/admin/pin", {"prompt": prompt[:160], "name": "agent"}, admin=True)[1]["pinned_tokens"], 160)
            self.assertIsNone(server.post("/admin/pin", {"prompt": prompt_of(99, 9), "name": "agent"}, admin=True)[1]["pin"])
            self.assertEqual([(pin["name"], pin["blocks"]) for pin in self.pins(server)], [("agent", 10)])
            self.assertEqual(server.post("/admin/flush_cache", {}, admin=True)[1]["dropped_pins"], 1)
            self.wait_for_pins(0)
            self.assertEqual(self.pins(server), [])
        with self.serve(disk=False) as server:
            ask(server, prompt, 1)
            self.assertEqual(server.post("/admin/pin", {"prompt": prompt, "name": "agent"}, admin=True)[0], 400)
            self.assertNotIn("name", server.post("/admin/pin", {"prompt": prompt}, admin=True)[1])

    def test_a_pinned_prompt_is_exported_alone(self):
        prompt = prompt_of(330)
        with self.serve() as server:
            for tokens in (prompt + prompt_of(64, 70), prompt_of(400, 50)):
                ask(server, tokens, 1)
            self.assertEqual(server.post("/admin/pin", {"prompt": prompt, "name": "agent"}, admin=True)[0], 200)
            self.wait_for_files(24 + 25)
            self.wait_for_pins(1)
        self.assertIn("20 blocks and 0 states imported", self.export(os.path.join(self.folder, "archive"), "--pin", "agent"))
        with self.serve() as server:
            self.assertEqual(cached(ask(server, prompt, 1)), 320)

    def pins(self, server):
        return server.get("/admin/pins", admin=True)["pins"]

    def wait_until(self, condition, why, seconds=20):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline, why)
            time.sleep(0.05)

    def wait_for_pins(self, count):
        self.wait_until(lambda: len(list(pathlib.Path(self.disk).rglob("*.pin"))) == count, f"not {count} files of pins")


if __name__ == "__main__":
    verdict.run_tests()
