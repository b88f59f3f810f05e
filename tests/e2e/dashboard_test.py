"""Tests the dashboard in a browser, with pointer and keyboard."""
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

import verdict
from batch_client import make_batch
from browser import Browser, need_browser
from server import QUIRE, TINY, Server, wait_gone
from stream_client import stream_in_background

need_browser()
import accessibility  # noqa: E402  needs a package of the browser tests' environment


def begin(server, prompt, tokens=1500, **fields):
    """Starts a streamed request, and returns (thread, request id) once the stream has begun."""
    thread, lines = stream_in_background(server, tokens, body={"prompt": prompt, **fields})
    return thread, json.loads(lines[0])["id"]


class DashboardCase(unittest.TestCase):
    FLAGS = ("-tp", "1", "--num-kv-blocks", "300", "--max-num-seqs", "4")

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.FLAGS, model=TINY)
        cls.addClassCleanup(cls.server.__exit__)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.__exit__)

    def setUp(self):
        self.browser.open(self.server.admin_url + "/")
        self.browser.see("#device-map canvas")
        self.browser.sees("#map-summary", "blocks of 16 tokens")

    def tearDown(self):
        self.order("/admin/resume")
        self.order("/admin/abort", {"all": True})
        self.assertEqual(self.browser.console(), [])

    def order(self, path, body=None):
        return self.server.post(path, body or {}, admin=True)

    def row(self, name):
        self.browser.until(f"{name} has a row", lambda: name in self.browser.text("#requests"))
        return self.browser.run("return [...document.querySelectorAll('#requests tr')].find((r) => r.textContent.includes(arguments[0])).innerText", name)


class RequestsTest(DashboardCase):
    def test_dashboard_shows_a_requests_row_and_its_blocks(self):
        _, name = begin(self.server, [5] * 100)
        self.order("/admin/pause")
        row = self.row(name)
        self.assertIn("generating", row)
        self.assertIn("the server is paused", row)
        self.browser.sees("#state", "paused")
        self.browser.sees("#owners", name)
        blocks = self.server.get("/admin/requests?id=" + name, admin=True)["requests"][0]["blocks"]
        self.browser.sees("#owners .what", f"{blocks} blocks")
        block = self.first_blocks()[0]
        self.browser.hover("#device-map canvas", *self.place_of(block))
        self.browser.sees("#tip b", f"Block {block}: held by one, 16 of 16 tokens filled")
        self.browser.sees("#tip", f"{name}: tokens 0 to 15")
        drawn = self.server.get("/admin/block_map", admin=True)
        taken = {first + i for ranges in (drawn["cached"], drawn["requests"][0]["tables"][0]["blocks"]) for first, count in ranges for i in range(count)}
        free = max(set(range(1, 301)) - taken)
        self.browser.hover("#device-map canvas", *self.place_of(free))
        self.browser.sees("#tip", "free")
        self.browser.hover("#map-title")
        self.browser.until("the word on a block goes", lambda: self.browser.hidden("#tip"))

    def first_blocks(self):
        """Returns the first block of each request."""
        return [request["tables"][0]["blocks"][0][0] for request in self.server.get("/admin/block_map", admin=True)["requests"]]

    def place_of(self, block):
        """Returns the block's position in whole pixels, relative to the middle of the canvas."""
        return self.browser.run("""
            const box = document.querySelector("#device-map canvas").getBoundingClientRect(), block = arguments[0] - 1;
            const total = 300;
            for (let cell = 22; cell >= 2; cell -= 1) {
              const columns = Math.round(box.width / cell);
              if (Math.abs(columns * cell - box.width) < 0.01 && Math.abs(Math.ceil(total / columns) * cell - box.height) < 0.01)
                return [Math.floor((block % columns + 0.5) * cell - box.width / 2), Math.floor((Math.floor(block / columns) + 0.5) * cell - box.height / 2)];
            }""", block)

    def test_block_map_colours_as_many_blocks_as_the_request_holds(self):
        def colors():
            return self.browser.run("""
                const canvas = document.querySelector("#device-map canvas"), pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
                const found = {};
                for (let i = 0; i < pixels.length; i += 4) { const c = [...pixels.slice(i, i + 3)].join(); found[c] = (found[c] ?? 0) + 1; }
                return found""")
        self.order("/admin/flush_cache")
        self.browser.sees("#map-summary", "0 cached")
        self.browser.until("only ground and free blocks are drawn", lambda: len(colors()) == 2)
        before = colors()
        begin(self.server, [5] * 100)
        self.order("/admin/pause")
        blocks = self.server.get("/admin/requests", admin=True)["requests"][0]["blocks"]
        self.browser.until("a third colour", lambda: len(colors()) > 2)
        self.browser.sees("#owners .what", f"{blocks} blocks")
        after, free = colors(), max(before, key=lambda c: before[c] if c != "255,255,255" else 0)
        cell = before[free] / 300
        self.assertEqual(round((before[free] - after[free]) / cell), blocks)

    def test_dashboard_shows_which_requests_share_a_block(self):
        self.order("/admin/flush_cache")
        _, first = begin(self.server, [8] * 64)
        _, second = begin(self.server, [8] * 64 + [1] * 20)
        _, third = begin(self.server, [8] * 64 + [2] * 20)
        self.order("/admin/pause")
        self.browser.sees("#map-summary", "4 shared")
        self.browser.until("each shares with the others", lambda: self.browser.text("#owners").count("shares with 2 others") == 3)
        block, *same = self.first_blocks()
        self.assertEqual(same, [block, block])
        self.browser.hover("#device-map canvas", *self.place_of(block))
        self.browser.sees("#tip b", "shared by 3")
        for name in (first, second, third):
            self.browser.sees("#tip", f"{name}: tokens 0 to 15")

    def test_block_map_dims_blocks_of_other_requests_when_the_pointer_is_on_a_request(self):
        begin(self.server, [8] * 64)
        begin(self.server, [1] * 64)
        self.order("/admin/pause")
        self.browser.until("two owners", lambda: self.browser.run("return document.querySelectorAll('#owners li').length") == 2)
        self.browser.hover("#map-title")
        one, other = self.first_blocks()
        before = [self.color_of(one), self.color_of(other)]
        self.browser.hover("#owners li:first-child button")
        self.browser.until("one of them pales", lambda: sum(a != b for a, b in zip(before, [self.color_of(one), self.color_of(other)])) == 1)
        self.browser.hover("#map-title")
        self.browser.until("both are back", lambda: before == [self.color_of(one), self.color_of(other)])

    def color_of(self, block):
        x, y = self.place_of(block)
        return self.browser.run("""
            const canvas = document.querySelector("#device-map canvas");
            return [...canvas.getContext("2d").getImageData(canvas.width / 2 + arguments[0], canvas.height / 2 + arguments[1], 1, 1).data].join()""", x, y)

    def test_dashboard_filters_requests_shows_details_and_aborts_one(self):
        thread, first = begin(self.server, [5] * 40)
        _, second = begin(self.server, [6] * 40)
        self.order("/admin/pause")
        self.row(first), self.row(second)
        self.browser.type("#filter-client", "nobody")
        self.browser.until("no row is left", lambda: self.browser.text("#requests") == "")
        self.browser.see("#no-requests")
        self.browser.click("#filter-client")
        self.browser.press("Control+a", "Backspace")
        self.row(first)
        self.browser.click("#requests tr:first-child .link")
        self.browser.sees("#details-title", first)
        self.browser.sees("#details-body", "queued: 40 prompt tokens")
        self.browser.sees("#details-body", "Choice 0")
        self.browser.press("Escape")
        self.browser.until("the dialog closes", lambda: self.browser.hidden("#details"))
        self.browser.click(f'button[aria-label="Abort {first}"]')
        self.browser.sees("#confirm-text", first)
        self.browser.click('#confirm button[value="no"]')
        self.assertEqual(len(self.server.get("/admin/requests", admin=True)["requests"]), 2)
        self.browser.click(f'button[aria-label="Abort {first}"]')
        self.browser.click("#confirm-yes")
        self.browser.sees("#control-result", "was aborted")
        self.browser.until("its row goes", lambda: first not in self.browser.text("#requests"))
        thread.join(timeout=20)
        self.assertFalse(thread.is_alive())
        self.row(second)

    def test_dashboard_shows_figures_charts_and_events(self):
        thread, _ = begin(self.server, [5] * 40)
        thread.join(timeout=60)
        self.browser.sees("#charts", "95 %:")
        self.browser.until("the first token's time is there", 
                           lambda: re.fullmatch(r"\d[\d.,]* (µs|ms|s)", self.browser.text("#figures .figure:nth-child(4) .value")))
        generated = self.server.get("/admin/status", admin=True)["generated_tokens"]
        self.assertGreaterEqual(generated, 1500)
        self.browser.sees("#figures .figure:nth-child(3) .note", "generated so far")
        self.browser.sees("#events", "choice 0 finished: max_tokens")
        points = "return document.querySelector('#charts polyline').getAttribute('points').split(' ').length"
        self.browser.until("a chart has a line", lambda: self.browser.run(points) > 1)


    def test_dashboard_shows_how_many_drafts_were_accepted(self):
        body = {"prompt": [9, 10, 11], "max_tokens": 40, "temperature": 0, "ignore_eos": True, "allowed_token_ids": [40, 41, 42]}
        text = self.server.post("/v1/completions", body)[1]["choices"][0]["text"]
        for _ in range(10):  # a server makes fewer drafts where its steps take unsteady times
            self.server.post("/v1/completions", {**body, "prediction": {"type": "content", "content": text}})
        self.browser.sees("#figures .figure.whole .note", "prediction ")
        self.browser.sees("#figures .figure.whole .note", "by position ")

    def test_dashboard_shows_earlier_values_to_a_browser_that_opens_the_page_later(self):
        begin(self.server, [5] * 40)
        self.assertEqual(self.server.post("/v1/completions", {"prompt": [1], "max_tokens": -2})[0], 400)
        deadline = time.monotonic() + 60
        while not [row for row in self.history() if row["refused"] > 0 and row is not self.history()[0]]:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.5)
        with Browser() as later:
            later.open(self.server.admin_url + "/")
            chart = "return (document.querySelector(`${arguments[0]} polyline`)?.getAttribute('points') ?? '').split(' ').length"
            later.until("the past is drawn", lambda: later.run(chart, "#charts .chart") >= len(self.history()) - 1 > 0)
            later.until("so is the figure's", lambda: later.run(chart, "#figures .figure") > 1)
            later.sees("#charts", "1 refusal, 0 errors")
            later.sees("#charts", "coordinator ")
            self.assertRegex(later.run("return [...document.querySelectorAll('#charts [role=img]')].map((p) => p.getAttribute('aria-label')).join('; ')"),
                             r"First token over time: now 50 % [\d.]+ [mµ]?s, 95 % [\d.]+ [mµ]?s, 99 % [\d.]+ [mµ]?s")

    def history(self):
        page = self.server.get("/admin/history", admin=True)
        return [dict(zip(page["columns"], row)) for row in page["rows"]]

    def test_dashboard_shows_the_rates_of_clients(self):
        begin(self.server, [5] * 40)
        self.browser.until("the client has a row", lambda: "no key" in self.browser.text("#clients"))
        self.browser.until("tokens are generated for it", lambda: float(self.browser.text("#clients td:nth-child(6)").replace(",", "").split(" ")[0] or 0) > 0)
        # The prompt has 40 tokens and the answer has 1,500. Earlier tests added more.
        self.browser.until("all tokens are counted", lambda: int(self.browser.text("#clients td:nth-child(7)").replace(",", "")) >= 1540)

    def test_requests_stand_above_the_block_map(self):
        tops = self.browser.run("return ['requests', 'device-map'].map((id) => document.getElementById(id).getBoundingClientRect().top)")
        self.assertLess(*tops)


class ControlsTest(DashboardCase):
    FLAGS = ("-tp", "2", "--num-kv-blocks", "300")

    def test_control_buttons_pause_resume_and_drain_the_server(self):
        self.browser.click("#controls button:nth-child(1)")
        self.browser.sees("#confirm-text", "until somebody resumes")
        self.browser.press("Enter")  # "Cancel" has the focus
        self.browser.until("the dialog closes", lambda: self.browser.hidden("#confirm"))
        self.assertEqual(self.server.get("/admin/status", admin=True)["state"], "serving")
        self.browser.click("#controls button:nth-child(1)")
        self.browser.click("#confirm-yes")
        self.browser.sees("#state", "paused")
        self.browser.sees("#controls button:nth-child(1)", "Resume")
        self.assertEqual(self.server.get("/admin/status", admin=True)["state"], "paused")
        self.browser.click("#controls button:nth-child(1)")
        self.browser.sees("#state", "serving")
        self.browser.click("#controls button:nth-child(2)")
        self.browser.click("#confirm-yes")
        self.browser.sees("#state", "draining")
        self.assertEqual(self.server.post("/v1/completions", {"prompt": [1]})[0], 503)
        self.browser.click("#controls button:nth-child(2)")
        self.browser.sees("#state", "serving")
        self.assertEqual(self.server.post("/v1/completions", {"prompt": [1], "max_tokens": 1})[0], 200)

    def test_control_buttons_flush_reshard_restart_and_abort_all(self):
        self.server.post("/v1/completions", {"prompt": [3] * 64, "max_tokens": 1})
        self.browser.sees("#map-summary", "4 cached")
        self.press_and_confirm("Flush cache", "4 blocks flushed")
        self.browser.sees("#map-summary", "0 cached")
        self.browser.click("#reshard-workers")
        self.browser.press("Control+a", "3", "Enter")
        self.browser.sees("#confirm-text", "replaced by 3")
        self.browser.click("#confirm-yes")
        self.browser.sees("#control-result", "3 workers serve after")
        self.assertEqual(len(self.server.worker_pids()), 3)
        self.browser.until("three ranks", lambda: self.browser.run("return document.querySelectorAll('#ranks tr').length") == 3)
        old = self.server.worker_pids()
        self.press_and_confirm("Restart workers", "new workers after")
        self.assertEqual(wait_gone(old, 10), [])
        thread, _ = begin(self.server, [5] * 4)
        self.order("/admin/pause")
        self.press_and_confirm("Abort all", "1 request aborted")
        thread.join(timeout=20)
        self.assertFalse(thread.is_alive())
        self.browser.sees("#events", "workers replaced")

    def press_and_confirm(self, button, result):
        script = "[...document.querySelectorAll('#controls button')].find((b) => b.textContent === arguments[0]).click()"
        self.browser.run(script, button)
        self.browser.click("#confirm-yes")
        self.browser.sees("#control-result", result)

    def test_dashboard_shows_the_servers_refusal(self):
        self.browser.run("document.getElementById('reshard-workers').value = 500")
        self.browser.click("#controls form button")
        self.browser.click("#confirm-yes")
        self.browser.sees("#control-result", "1 to 9 workers")
        self.assertIn("400", self.browser.console()[0])

    def test_dashboard_shows_a_lost_worker_and_the_recovery(self):
        os.kill(self.server.worker_pids()[0], signal.SIGKILL)
        self.browser.sees("#losses", "back after")
        self.browser.sees("#epochs", "1 recovery")
        self.browser.sees("#events", "workers lost")


class ReplicasTest(DashboardCase):
    FLAGS = ("-tp", "1", "--data-parallel-size", "2", "--num-kv-blocks", "300", "--swap-space", "0.001")

    def test_dashboard_moves_a_request_and_shows_the_chosen_replica(self):
        _, name = begin(self.server, [5] * 40, tokens=1900)
        self.order("/admin/pause")  # the request must not end before its button is there
        here = self.server.get("/admin/requests?id=" + name, admin=True)["requests"][0]["replica"]
        self.row(name)
        self.browser.click(f'button[aria-label="Move {name} to another replica"]')
        self.browser.sees("#control-result", f"{name} moves to replica {1 - here}")
        self.order("/admin/resume")
        self.browser.sees("#events", "comes from another replica")
        self.browser.sees("#cluster-summary", "2 replicas, 2 workers")
        self.browser.see("#host-map canvas")
        self.order("/admin/abort", {"all": True})
        _, name = begin(self.server, [5] * 40)
        self.order("/admin/pause")
        here = self.server.get("/admin/requests?id=" + name, admin=True)["requests"][0]["replica"]
        for replica in (1 - here, here):
            self.browser.run("const s = document.getElementById('replica'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))", str(replica))
            self.browser.until("its blocks are there or not", lambda: (name in self.browser.text("#owners")) == (replica == here))


class LargeTest(DashboardCase):
    FLAGS = ("-tp", "1", "--num-kv-blocks", "100000", "--max-num-seqs", "64")

    def test_block_map_grows_with_the_blocks_in_use(self):
        begin(self.server, [5] * 1000, tokens=900, n=2)
        self.order("/admin/pause")
        self.browser.sees("#owners", "2 choices")
        self.browser.sees("#map-folded", "blocks that are free")
        height = "return document.querySelector('#device-map canvas').getBoundingClientRect().height"
        self.assertLess(self.browser.run(height), 150)
        drawn = self.browser.run("""
            const {BlockMap} = await import("/web/dashboard/block_map.js"), {deviceOwnership} = await import("/web/dashboard/ownership.js");
            const map = await (await fetch("/admin/block_map")).json(), parent = document.createElement("div"), chosen = [];
            document.getElementById("device-map").after(parent);
            const picture = new BlockMap(parent, "", (id) => chosen.push(id));
            const show = (ranges) => {
              picture.show(deviceOwnership({...map, requests: [], cached: ranges}));
              const box = picture.canvas.getBoundingClientRect(), at = (id) => {
                chosen.length = 0;
                const row = Math.floor((id - 1) / picture.columns), x = ((id - 1) % picture.columns + 0.5) * picture.cell, y = picture.tops[row] / picture.scale + picture.cell / 2;
                picture.canvas.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + x, clientY: box.top + y}));
                return chosen.at(-1);
              };
              return {height: box.height, folded: picture.folded, at: ranges.slice(0, 40).map(([first]) => [first, at(first)])};
            };
            const few = Array.from({length: 20}, (_, i) => [1 + i * 4999, 10]), many = Array.from({length: 9000}, (_, i) => [1 + i * 11, 10]);
            const all = {few: show(few), many: show(many), last: show([[99991, 10]])};
            parent.remove();
            return all""")
        for name, one in drawn.items():  # the pointer finds every block where the map draws it
            self.assertEqual([first for first, _ in one["at"]], [found for _, found in one["at"]], name)
        self.assertEqual(drawn["many"]["folded"], 0)  # 90 % in use
        self.assertGreater(drawn["many"]["height"], 300)
        self.assertGreater(drawn["few"]["folded"], 90000)  # 0.2 % in use, all over the pool
        self.assertGreater(drawn["last"]["folded"], 99000)
        self.assertLess(drawn["last"]["height"], 80)

    def test_block_map_draws_100000_blocks_and_is_walked_by_keyboard(self):
        begin(self.server, [5] * 1000, tokens=900, n=8)
        self.order("/admin/pause")
        self.browser.sees("#map-summary", "100,000 blocks")
        self.browser.sees("#owners", "8 choices")
        times = self.browser.run("""
            const {BlockMap} = await import("/web/dashboard/block_map.js"), {deviceOwnership} = await import("/web/dashboard/ownership.js");
            const map = await (await fetch("/admin/block_map")).json(), parent = document.createElement("div");
            document.getElementById("device-map").after(parent);
            const picture = new BlockMap(parent, "", () => {}), taken = [];
            for (let i = 0; i < 5; ++i) { const begin = performance.now(); picture.show(deviceOwnership(map)); taken.push(performance.now() - begin); }
            const size = [picture.canvas.width, picture.canvas.height, picture.columns * picture.rows];
            parent.remove();
            return {taken, size}""")
        self.assertGreaterEqual(times["size"][2], 100000)
        print(f"100,000 blocks are drawn in {min(times['taken']):.1f} to {max(times['taken']):.1f} ms, {times['size'][0]} x {times['size'][1]} pixels")
        self.browser.run("document.querySelector('#device-map canvas').focus()")
        self.browser.press("End")
        self.browser.sees("#tip b", "Block 100000")
        self.browser.press("Left", "Up", "Home")
        self.browser.sees("#tip b", "Block 1: shared by 8")
        self.browser.press("Right")
        self.browser.sees("#said", "Block 2: shared by 8")


class KeyboardAndEyesTest(DashboardCase):
    def test_dashboard_controls_are_labelled_and_reached_by_keyboard(self):
        _, name = begin(self.server, [5] * 40)
        self.order("/admin/pause")
        self.row(name)
        self.browser.sees("#controls", "Resume")  # the page reads the state once a second
        stops = accessibility.tab_stops(self.browser)
        for wanted in ("Blocks on the device", name, f"Abort {name}", "State", "Client", "Resume", "Drain", "Flush cache", "Restart workers", "Workers", "Reshard", "Abort all",
                       "Latest events", "Table of requests"):
            self.assertTrue(any(wanted in stop for stop in stops), (wanted, stops))
        self.assertNotIn("", stops)
        self.assertTrue(self.browser.hidden("#batches-card"), "this server keeps no batches")
        self.browser.run("document.querySelector('#controls button').focus()")
        self.browser.press("Enter")
        self.browser.sees("#state", "serving")
        self.browser.run("document.querySelector('#controls button:last-of-type').focus()")
        self.browser.press("Enter")
        self.assertEqual(self.browser.focused(), "Cancel")
        self.browser.press("Escape")
        self.browser.until("the dialog closes", lambda: self.browser.hidden("#confirm"))

    def test_dashboard_passes_axe_in_both_themes(self):
        begin(self.server, [5] * 40)
        self.order("/admin/pause")
        self.browser.see("#requests tr")
        self.addCleanup(self.browser.theme, False)
        for dark in (False, True):
            self.browser.theme(dark)
            self.assertEqual(accessibility.violations(self.browser), [])
        self.browser.click("#requests .link")
        self.browser.see("#details dl")
        self.assertEqual(accessibility.violations(self.browser), [])
        self.browser.press("Escape")

    def test_dashboard_never_scrolls_sideways_at_any_width(self):
        begin(self.server, [5] * 40)
        self.order("/admin/pause")
        for width in (360, 642, 900):
            with Browser(width=width, height=844) as browser:
                browser.open(self.server.admin_url + "/")
                browser.see("#requests tr")
                browser.see("#clients tr")
                self.assertEqual(browser.run("return [document.documentElement.scrollWidth, innerWidth]"), [width, width])
                self.assertEqual(accessibility.sticking_out(browser), [], width)

    def test_dashboard_fits_a_phones_screen(self):
        begin(self.server, [5] * 40)
        self.order("/admin/pause")
        with Browser(width=390, height=844) as phone:
            phone.open(self.server.admin_url + "/")
            phone.see("#requests tr")
            self.assertEqual(accessibility.sticking_out(phone), [])
            for cell in (".link", ".pill", ".why", "button.danger"):  # all cells of a request are on the screen
                right = phone.run("return document.querySelector('#requests ' + arguments[0]).getBoundingClientRect().right", cell)
                self.assertLess(right, 390, cell)
            self.assertEqual(accessibility.violations(phone), [])


class BatchesTest(unittest.TestCase):
    """Tests the table of batches, on a server with a batch directory."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.server = Server("-tp", "1", "--threads-per-worker", "1", "--batch-dir", os.path.join(folder.name, "kept"), model=TINY)
        self.addCleanup(self.server.__exit__)

    def batches(self, query=""):
        return self.server.get("/admin/batches" + query, admin=True)

    def until(self, what, holds):
        deadline = time.monotonic() + 60
        while not holds():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def test_dashboard_shows_how_far_batches_are_in_both_themes_and_on_a_phone(self):
        self.assertEqual(self.batches(), {"matching": 0, "not_listed": 0, "batches": []})
        ended = make_batch(self.server, 3, 1)
        self.until("the batch ends", lambda: self.batches()["batches"][0]["over"])
        self.server.post("/admin/pause", {}, admin=True)
        going, later = make_batch(self.server, 40, 100), make_batch(self.server, 2, 1)
        self.until("its requests are in the engine", lambda: self.batches()["batches"][0]["running"] == 16)
        listed = self.batches()
        self.assertEqual([one["id"] for one in listed["batches"]], [going, later, ended], "those that are not over come first")
        self.assertEqual([one["why_waiting"] for one in listed["batches"]], [None, "an older batch of its client goes first", None])
        self.assertEqual((listed["batches"][2]["completed"], listed["batches"][2]["total"], listed["batches"][2]["status"]), (3, 3, "completed"))
        self.assertEqual((self.batches("?limit=1")["not_listed"], self.batches("?status=completed")["matching"], self.batches("?client=no")["matching"]), (2, 1, 0))
        with Browser() as browser:
            browser.open(self.server.admin_url + "/")
            browser.until("three rows", lambda: browser.run("return document.querySelectorAll('#batches tr').length") == 3)
            row = browser.run("return [...document.querySelectorAll('#batches tr')].map((row) => row.innerText)")
            for text, words in zip(row, ((going, "in progress", "0 of 40", "16"), (later, "validating", "an older batch of its client goes first"), (ended, "completed", "3 of 3"))):
                for word in words:
                    self.assertIn(word, text)
            browser.sees("#batches-summary", "16 requests running; 4 files")
            for dark in (False, True):
                browser.theme(dark)
                self.assertEqual(accessibility.violations(browser), [])
            self.server.post("/admin/resume", {}, admin=True)
            browser.until("the batch is over", lambda: "40 of 40" in browser.text("#batches"))
            self.assertEqual(browser.console(), [])
        self.server.post("/admin/pause", {}, admin=True)
        make_batch(self.server, 40, 100)
        with Browser(width=390, height=844) as phone:
            phone.open(self.server.admin_url + "/")
            phone.see("#batches tr")
            self.assertEqual(accessibility.sticking_out(phone), [])
            for cell in (".name", ".client", ".pill", ".done", ".failed", ".running", ".endpoint", ".age"):  # all cells of a batch are on the screen
                left, right = phone.run("const box = document.querySelector('#batches ' + arguments[0]).getBoundingClientRect(); return [box.left, box.right]", cell)
                self.assertTrue(0 <= left < right <= 390, (cell, left, right))
            self.assertEqual(accessibility.violations(phone), [])


class SignInTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.file = os.path.join(directory.name, "admin.tokens")
        cls.operator, cls.reader = (cls.make(*words) for words in (("operator",), ("reader", "--scopes", "read")))
        cls.server = Server("-tp", "1", "--admin-token-file", cls.file, model=TINY)
        cls.addClassCleanup(cls.server.__exit__)

    @classmethod
    def make(cls, *words):
        made = subprocess.run([QUIRE, "keygen", "--admin", *words, "--file", cls.file], capture_output=True, text=True, check=True).stdout
        return next(word for word in made.split() if len(word) > 40)

    def test_dashboard_shows_only_the_sign_in_until_a_token_is_given(self):
        with Browser() as browser:
            browser.open(self.server.admin_url + "/")
            browser.see("#sign-in")
            self.assertTrue(browser.hidden("#app"))
            self.assertNotIn("gqa", browser.run("return document.body.textContent"))
            for dark in (False, True):
                browser.theme(dark)
                self.assertEqual(accessibility.violations(browser), [])
            self.assertEqual(browser.focused(), "Admin token")
            browser.type("#token", "wrong")
            browser.press("Enter")
            browser.sees("#sign-in-error", "The token is not known here.")
            browser.type("#token", self.reader)
            browser.press("Enter")
            browser.sees("#model", "gqa")
            browser.sees("#events-state", "")
            self.assertTrue(browser.hidden("#sign-in"))
            self.assertEqual(browser.run("return [location.href, document.cookie, Object.keys(localStorage).length]"), [self.server.admin_url + "/", "", 0])
            browser.click("#controls button:nth-child(1)")  # this token has only the read scope
            browser.click("#confirm-yes")
            browser.sees("#control-result", "lacks the scope")
            browser.open(self.server.admin_url + "/")  # the tab still has the token
            browser.sees("#model", "gqa")
            browser.click("#sign-out")
            browser.see("#sign-in")
            self.assertEqual(browser.run("return sessionStorage.length"), 0)
            browser.type("#token", self.operator)
            browser.press("Enter")
            browser.sees("#state", "serving")
            browser.click("#controls button:nth-child(1)")
            browser.click("#confirm-yes")
            browser.sees("#state", "paused")
            browser.click("#controls button:nth-child(1)")
            browser.sees("#state", "serving")


class ServerGoneTest(unittest.TestCase):
    def test_dashboard_says_that_its_data_is_old_when_the_server_is_gone(self):
        with Browser() as browser:
            with Server("-tp", "1", model=TINY) as server:
                browser.open(server.admin_url + "/")
                browser.sees("#state", "serving")
            browser.sees("#trouble", "what is shown here is old")
            browser.see("#trouble")
            self.assertEqual(browser.text("#state"), "no answer")
            self.assertIn("bad", browser.run("return document.getElementById('state').className"))


if __name__ == "__main__":
    verdict.run_tests()
