"""Tests that lost, repeated, delayed or damaged frames between coordinator and workers never change an answer."""
import tempfile
import time
import unittest

import verdict
from frame_faults import FrameFaults
from server import TINY, Server
from stream_client import stream_in_background, text_of


def serve_through_faults(streams, rounds, rate, seed, tokens=600):
    """Serves `streams` streams at a time through the proxy, `rounds` times. Their texts must equal the text of a stream without faults.
    Returns (counts of the proxy's faults, number of recoveries, {epoch: stall in seconds}, causes of losses)."""
    with tempfile.TemporaryDirectory() as directory, FrameFaults(directory, rate, seed) as faults:
        # Without drafts each token takes frames of its own.
        with Server("-tp", "2", "--speculative-config", '{"method": "off"}', model=TINY, env=faults.env()) as server:
            thread, lines = stream_in_background(server, tokens)
            thread.join(timeout=60)
            expected = text_of(lines)
            faults.active.set()
            stalls, causes = {}, {}

            def note():
                for loss in server.get("/admin/status", admin=True)["losses"]:
                    if loss["stall_seconds"] is not None:
                        stalls[loss["epoch"]], causes[loss["epoch"]] = loss["stall_seconds"], loss["cause"]

            for _ in range(rounds):
                running = [stream_in_background(server, tokens) for _ in range(streams)]
                while any(thread.is_alive() for thread, _ in running):
                    note()
                    time.sleep(0.2)
                for thread, lines in running:
                    assert text_of(lines) == expected, "a stream differs"
            faults.active.clear()
            status = server.get("/admin/status", admin=True)
            assert status["blocks"]["device"]["free"] == status["blocks"]["device"]["total"], status["blocks"]
            note()
            return faults.counts, status["recoveries"], stalls, sorted(causes.values())


class FrameFaultsTest(unittest.TestCase):
    def test_streams_are_unchanged_when_frames_are_lost_repeated_delayed_or_damaged(self):
        counts, recoveries, _, _ = serve_through_faults(streams=4, rounds=2, rate=0.005, seed=1)
        for fault in ("lost", "repeated", "delayed", "damaged"):
            self.assertGreater(counts[fault], 0, counts)
        self.assertGreater(recoveries, 3)


if __name__ == "__main__":
    verdict.run_tests()
