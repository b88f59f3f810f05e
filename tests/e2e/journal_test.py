"""Tests the step journal, also when the coordinator is killed or the journal's disk is frozen, and the commands that read it: quire
replay and quire explain."""
import concurrent.futures
import os
import signal
import subprocess
import tempfile
import time
import unittest

import verdict
from server import BUILD, QUIRE, TINY, Server


def quire(*arguments):
    return subprocess.run([QUIRE, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)


def load(server, requests, seconds=120):
    def ask(i):
        body = {"prompt": [2 + (i * 7 + k) % 200 for k in range(30 + i)], "max_tokens": 60, "temperature": 0.7, "seed": i,
                "n": 1 + i % 3, "ignore_eos": True, "stop": ["zz"]}
        if i % 5 == 1:
            body.update(use_beam_search=True, n=3)
        return server.post("/v1/completions", body, timeout=seconds)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(requests)))
    assert all(status == 200 for status, _ in answers), answers
    return [answer["id"] for _, answer in answers]


class JournalTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="quire-journal-")
        self.journal = os.path.join(self.directory, "journal")

    def test_replay_reproduces_every_plan_and_explain_describes_requests(self):
        flags = ("-tp", "2", "--num-kv-blocks", "60", "--swap-space", "0.01", "--preemption-mode", "swap", "--journal", self.journal)
        with Server(*flags, model=TINY) as server:
            names = load(server, 40)
            steps = server.get("/admin/status", admin=True)["steps"]
            self.assertGreater(server.get("/admin/status", admin=True)["swapped_out"], 0)
            second = quire("serve", "--model", TINY, "--port", "0", "--admin-port", "0", "--journal", self.journal)
            self.assertEqual(second.returncode, 1)
            self.assertIn(self.journal, second.stderr)
        replay = quire("replay", "--journal", self.journal)
        self.assertEqual(replay.returncode, 0, replay)
        self.assertIn(f"40 requests, {steps} steps: every plan is the same", replay.stdout)
        stories = [quire("explain", name, "--journal", self.journal).stdout for name in names]
        self.assertTrue(all("finished" in story for story in stories))
        self.assertTrue(any("preempted for request" in story and "swapped in" in story for story in stories))
        self.assertEqual(os.stat(self.journal).st_mode & 0o777, 0o700)

    def test_journal_is_complete_after_the_coordinator_is_killed(self):
        server = Server("-tp", "1", "--journal", self.journal, model=TINY)
        try:
            names = load(server, 10)
            self.await_written(server)
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
        finally:
            server.__exit__()
        self.assertEqual(quire("replay", "--journal", self.journal).returncode, 0)
        self.assertIn("finished", quire("explain", names[-1], "--journal", self.journal).stdout)

    def test_requests_are_served_while_the_journals_disk_is_frozen(self):
        flag = os.path.join(self.directory, "frozen")
        frozen_disk = {"LD_PRELOAD": os.path.join(BUILD, "tests", "libfrozen_disk.so"), "QUIRE_FREEZE": flag, "QUIRE_FROZEN_DISK": self.journal}
        with Server("-tp", "2", "--journal", self.journal, model=TINY, env=frozen_disk) as server:
            before = load(server, 3)
            with open(flag, "w", encoding="utf-8"):
                pass
            # The disk stays frozen until all requests are answered. A request that waited for the disk would never end.
            meanwhile = load(server, 20, seconds=40)
            status = server.get("/admin/status", admin=True)
            self.assertEqual((status["losses"], status["epoch"]), ([], 1))
            self.assertGreater(status["journal"]["waiting_bytes"], 0)
            self.assertRegex(server.get("/metrics", admin=True), r"quire:journal_waiting_bytes\S* [1-9]")
            os.remove(flag)
            self.await_written(server)
            self.assertEqual(status["journal"]["lost_records"], 0)
            after = load(server, 3)
        self.assertEqual(quire("replay", "--journal", self.journal).returncode, 0)
        for name in before + meanwhile + after:
            self.assertIn("finished", quire("explain", name, "--journal", self.journal).stdout)

    def await_written(self, server):
        """Waits until the disk has all journalled records."""
        deadline = time.monotonic() + 30
        while server.get("/admin/status", admin=True)["journal"]["waiting_bytes"] > 0:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_journal_commands_name_missing_journals_and_bad_flags(self):
        missing = quire("replay", "--journal", self.journal)
        self.assertEqual(missing.returncode, 1)
        self.assertIn(self.journal, missing.stderr)
        self.assertEqual(quire("explain", "x").returncode, 2)
        no_space = quire("serve", "--model", TINY, "--preemption-mode", "swap")
        self.assertEqual(no_space.returncode, 2)
        self.assertIn("--swap-space", no_space.stderr)
        self.assertIn("block 5", quire("explain-paging").stdout)


if __name__ == "__main__":
    verdict.run_tests()
