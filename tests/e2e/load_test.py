"""Runs 1,000 requests, 64 streams at a time, and cancels some at random. Every answer must be right. At the end every block must be free,
and no process may be left."""
import asyncio
import json
import os
import random
import unittest

import verdict
from server import TINY, Server, wait_gone

with open(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "golden", "tiny_gqa.json")) as f:
    CASES = json.load(f)["cases"]


async def request(port, prompt, max_tokens, cancel_after=None):
    """Streams a completion of a prompt of token ids. Returns its text, or None if the request was cancelled, after `cancel_after`
    events."""
    body = json.dumps({"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "stream": True, "ignore_eos": True}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        status = await reader.readline()
        if b"200" not in status:
            raise AssertionError(status + await reader.read())
        text, done, count = "", False, 0
        async for line in reader:
            if not line.startswith(b"data: "):
                continue
            if line.strip() == b"data: [DONE]":
                done = True
                break
            event = json.loads(line[6:])
            if "error" in event:
                raise AssertionError(event)
            text += event["choices"][0]["text"]
            count += 1
            if cancel_after is not None and count >= cancel_after:
                return None
        if not done:
            raise AssertionError("the stream ended without [DONE]")
        return text
    finally:
        writer.close()


class LoadTest(unittest.TestCase):
    def test_a_thousand_requests_with_random_cancels_get_correct_answers(self):
        # The pool holds about a dozen of the longer requests, so that preemption happens all the time.
        with Server("--exact", "-tp", "2", "--num-kv-blocks", "60", "--max-num-seqs", "64", "--max-num-batched-tokens", "128", model=TINY) as server:
            pids = server.worker_pids()
            expected = {}
            for i, case in enumerate(CASES):
                _, answer = server.post("/v1/completions", {"prompt": case["prompt"], "max_tokens": 60, "temperature": 0, "ignore_eos": True})
                _, decoded = server.post("/detokenize", {"tokens": case["tokens"][:60]})
                # An answer that is cut inside a character ends before that character; /detokenize shows the part of the
                # character.
                rest = decoded["prompt"].replace("<|end|>", "").removeprefix(answer["choices"][0]["text"])
                self.assertIn(rest, ("", "\N{REPLACEMENT CHARACTER}"), f"case {i}")
                expected[i] = answer["choices"][0]["text"]
            asyncio.run(self.drive(server, expected))
            deadline = 100
            while deadline and server.get("/admin/status", admin=True)["running"]:
                deadline -= 1
            status = server.get("/admin/status", admin=True)
            self.assertEqual((status["running"], status["waiting"]), (0, 0))
            self.assertEqual(status["blocks"]["device"]["free"], 60)
            self.assertGreater(status["preemptions"], 0)
            self.assertEqual(server.get("/admin/blocks", admin=True)["used"], 0)
            self.assertIn("vllm:num_requests_running", server.get("/metrics", admin=True))
            self.assertEqual(server.terminate(), 0, server.text())
            self.assertEqual(wait_gone(pids, 2), [])

    async def drive(self, server, expected):
        rng = random.Random(5)
        gate = asyncio.Semaphore(64)

        async def one(i):
            async with gate:
                case = i % len(CASES)
                cancel = rng.randrange(0, 20) if rng.random() < 0.2 else None
                text = await asyncio.wait_for(request(server.port, CASES[case]["prompt"], 60, cancel), 120)
                if text is not None:
                    self.assertEqual(text, expected[case])
                    return 1
                return 0

        results = await asyncio.gather(*(one(i) for i in range(1000)))
        self.assertGreater(sum(results), 700)


if __name__ == "__main__":
    verdict.run_tests()
