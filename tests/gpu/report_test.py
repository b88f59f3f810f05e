#!/usr/bin/env python3
"""Tests a GPU run without a GPU: the plan's time limits, how programs are run, restarted and judged, the report and its goals on
made-up results, and the pack in an empty environment. Fake programs (stand_ins.py) replace the real ones."""
import contextlib
import fnmatch
import glob
import importlib.machinery
import importlib.util
import io
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
import clocks  # noqa: E402
import goals  # noqa: E402
import parts  # noqa: E402
import plan  # noqa: E402
import report as reports  # noqa: E402
import stand_ins  # noqa: E402


def load_run():
    loader = importlib.machinery.SourceFileLoader("gpu_run", os.path.join(HERE, "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


runs = load_run()

CEILINGS = {"copy_gb_per_s": 4000.0, "read_gb_per_s": 4200.0, "bf16_tflop_per_s": 700.0}


def row(section, case, variant, micros, **more):
    return {"section": section, "case": case, "variant": variant, "median_us": micros, "min_us": micros * 0.9,
            "max_us": micros * 1.1, "formula": "bytes", **more}


def check(good=True):
    return {"section": "decode attention", "case": "32 x 4K, GQA 8, bf16", "variant": "decode attention", "good": good}


DECODE = [row("decode attention", "32 x 4K, GQA 8, bf16", "decode attention", 100.0, gb_per_s=3000.0, of_copy=0.75),
          row("decode attention", "32 x 4K, GQA 8, bf16", "v1", 300.0, gb_per_s=1000.0, of_copy=0.25),
          row("decode attention", "32 x 4K, GQA 4, bf16", "decode attention", 110.0, of_copy=0.83),
          row("decode attention", "32 x 4K, GQA 4, bf16", "FlashInfer", 121.0, of_copy=0.75),
          row("decode attention", "32 x 4K, GQA 4, FP8", "decode attention", 55.0, of_copy=0.83)]
PRODUCTS = [row("decode products", "qkv, 1 rows", "cuBLASLt, first guess", 20.0, m=1, of_copy=0.5),
            row("decode products", "qkv, 1 rows", "skinny, wide", 16.0, m=1, of_copy=0.625, of_gemm=0.01),
            row("decode products", "o, 8 rows", "cuBLASLt, first guess", 20.0, m=8, of_copy=0.5),
            row("decode products", "o, 8 rows", "skinny, wide", 21.0, m=8, of_copy=0.48)]
STEPS = [row("decode steps", "1 sequences of 1024, 6 layers", "one step ahead", 510.0, of_copy=0.7)]


def example():
    return {"date": "2026-01-02", "commit": "abc", "arch": "sm_90a", "clocks": {"before": "SM 345 MHz"},
            "facts": {"gpu": "Some GPU", "driver": "1.2", "clocks": "at most SM 1 MHz"},
            "parts": [{"name": "kernel tests", "status": "passed", "seconds": 3.2, "tests": True, "detail": "9 passed", "clocks": "warm"},
                      {"name": "bench decode", "status": "failed", "seconds": 1, "tests": False, "detail": "a | b"}],
            "bench": {"ceilings": CEILINGS, "ceilings_by_section": {"ceilings": CEILINGS}, "rules": "fair", "checks": [check()],
                      "results": DECODE + PRODUCTS + STEPS},
            "others": {"notes": ["cuDNN prefill: none"],
                       "results": [row("decode attention", "32 x 4K, GQA 8, bf16", "PyTorch SDPA, contiguous", 120.0)]},
            "step_kernels": {"batch": 1, "context": 1024, "layers": 6, "kernels": 50, "sum_us": 500.0, "per_layer": 7.0}}


def the_json(folder):
    return os.path.join(folder, next(name for name in os.listdir(folder) if name.endswith(".json")))

# Typed tests that also run on a real device (CMakeLists.txt).
SHARED_BODIES = ("elementwise_test.cc", "route_experts_test.cc", "recurrent_test.cc")


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="quire-report-")
        self.addCleanup(shutil.rmtree, self.folder)

    def at(self, *names):
        return os.path.join(self.folder, *names)


class PlanTest(unittest.TestCase):
    def test_time_limits_of_all_parts_fit_into_one_call(self):
        limits = sum(p.limit for p in plan.PARTS)
        around = plan.FIXED_SECONDS + plan.SECONDS_PER_PART * len(plan.PARTS)
        self.assertLess(limits + around, plan.RUN_SECONDS)
        self.assertLessEqual(plan.RUN_SECONDS + plan.UNPACK_SECONDS, plan.CALL_SECONDS)

    def test_allowance_keeps_the_time_limit_of_every_part_whatever_other_parts_use(self):
        for used in (0.0, 0.5, 1.0):  # the fraction of its allowance that each part uses
            left, seen = float(plan.RUN_SECONDS), 0
            for i, part in enumerate(plan.PARTS):
                seconds = parts.allowance(part, plan.PARTS[i + 1:], left)
                self.assertGreaterEqual(seconds, part.limit)
                self.assertLessEqual(seconds, 2 * part.limit)
                left -= used * seconds + plan.SECONDS_PER_PART
                seen += seconds > part.limit
            self.assertGreaterEqual(left, 0)
            self.assertGreater(seen, 0)

    def test_allowance_of_a_part_leaves_time_to_finish_a_short_run(self):
        self.assertEqual(parts.allowance(plan.PARTS[3], plan.PARTS[4:], 15), 5)

    def test_parts_are_ordered_by_importance(self):
        kinds = [("ceilings", "bench ceilings"), ("smoke", "smoke"), ("benches", "bench [^s]|bench small|bench sampling"),
                 ("steps", "step|bench steps|profile"), ("tests", "kernel tests|engine|one-shot|block moves"), ("sanitizers", "sanitizer"),
                 ("ranks on one device", "tensor")]
        order = [next(name for name, pattern in kinds if re.match(pattern, part.name)) for part in plan.PARTS]
        self.assertEqual(list(dict.fromkeys(order)), [name for name, _ in kinds])
        self.assertEqual(sorted(order, key=[name for name, _ in kinds].index), order)
        self.assertEqual(len({part.name for part in plan.PARTS}), len(plan.PARTS))

    def test_every_section_of_the_benchmark_is_a_part_of_the_gpu_run(self):
        with open(os.path.join(HERE, "..", "..", "worker", "cuda", "bench", "main.cc"), encoding="utf-8") as f:
            known = re.search(r"CLI::IsMember\(\{([^}]*)\}", f.read()).group(1)
        asked = [part.command[part.command.index("--only") + 1] for part in plan.PARTS if part.kind == "bench"]
        self.assertEqual(asked, re.findall(r'"(\w+)"', known))

    def test_sources_for_the_device_use_no_helpers_of_the_emulator(self):
        with open(os.path.join(HERE, "CMakeLists.txt"), encoding="utf-8") as f:
            sources = re.findall(r"\$\{(?:KERNEL_)?TESTS\}/(\S+\.cc)", f.read())
        self.assertGreater(len(sources), 20)
        for name in sources:
            folder = ".." if os.path.exists(os.path.join(HERE, "..", name)) else "../kernels/cuda"
            with open(os.path.join(HERE, folder, name), encoding="utf-8") as f:
                text = f.read()
            for word in ("QUIRE_TEST_DATA", "emulated_gemm.h", "simt/submit.h"):
                self.assertNotIn(word, text, f"{name}: gpu_* would not build or not run")

    def test_every_pattern_of_the_plan_matches_a_test(self):
        kernels = os.path.join(HERE, "..", "kernels")
        names = []
        for file in glob.glob(os.path.join(kernels, "cuda", "*_test.cc")) + [os.path.join(kernels, name) for name in SHARED_BODIES]:
            with open(file, encoding="utf-8") as f:
                found = re.findall(r"^(TYPED_TEST|TEST)\((\w+), (\w+)", f.read(), re.M)
            names += [f"{suite}/Cuda.{case}" if kind == "TYPED_TEST" else f"{suite}.{case}" for kind, suite, case in found]
        for pattern in plan.SANITIZED + plan.SMOKE:
            with self.subTest(pattern):
                self.assertTrue(fnmatch.filter(names, pattern))


class GtestTest(Folder):
    def outcome(self, names, seconds=30.0, test_seconds=15.0):
        program = stand_ins.gtest(self.at("tests"), names)
        return parts.run_gtest([program], dict(os.environ), self.at("log"), time.monotonic() + seconds, test_seconds)

    def test_gtest_part_passes_when_all_tests_passed_or_were_skipped(self):
        outcome = self.outcome(["A.One", "A.Two", "Of/B.Skips/0"])
        self.assertEqual((outcome.status, outcome.detail), ("passed", "2 passed, 1 skipped"))

    def test_gtest_part_fails_with_the_names_of_failed_tests(self):
        outcome = self.outcome(["A.One", "Of/A.Fails/3"])
        self.assertEqual((outcome.status, outcome.detail), ("failed", "1 passed, 1 failed; failed: Of/A.Fails/3"))

    def test_gtest_part_continues_after_a_test_that_crashes(self):
        outcome = self.outcome(["A.One", "A.Crashes", "A.Two", "B.Three"])
        self.assertEqual(outcome.status, "failed")
        self.assertEqual(outcome.detail, "3 passed; A.Crashes took its process along (SIGSEGV: about to fall)")

    def test_gtest_part_continues_in_another_process_when_the_device_is_lost(self):
        outcome = self.outcome(["A.One", "A.LosesTheDevice", "A.Two"])
        self.assertIn("2 passed; A.LosesTheDevice took its process along (exit status 4: A.LosesTheDevice lost the device", outcome.detail)

    def test_gtest_part_continues_after_a_test_that_hangs(self):
        outcome = self.outcome(["A.One", "A.Hangs", "A.Two"], test_seconds=0.5)
        self.assertEqual((outcome.status, outcome.detail), ("failed", "2 passed; A.Hangs hung for 0 s"))

    def test_a_gtest_program_is_restarted_a_bounded_number_of_times(self):
        names = [f"A.Crashes{i}" for i in range(parts.MAX_RESTARTS + 3)] + ["A.Last"]
        outcome = self.outcome(names)
        self.assertEqual(outcome.detail.count("took its process along"), parts.MAX_RESTARTS + 1)
        self.assertIn("3 not run, from A.Crashes9 on", outcome.detail)
        self.assertEqual(outcome.status, "failed")

    def test_gtest_part_names_tests_that_no_time_was_left_for(self):
        outcome = self.outcome(["A.One", "A.Hangs", "A.Two"], seconds=1.5)
        self.assertEqual((outcome.status, outcome.detail), ("ran out of time", "1 passed; 2 not run, from A.Hangs on"))

    def test_gtest_part_shows_the_output_of_a_program_that_does_not_start(self):
        with open(self.at("tests"), "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\necho libnccl.so.2 is missing\nexit 127\n")
        os.chmod(self.at("tests"), 0o755)
        outcome = parts.run_gtest([self.at("tests")], dict(os.environ), self.at("log"), time.monotonic() + 5)
        self.assertEqual((outcome.status, outcome.detail),
                         ("failed", "the list of tests: exit status 127: libnccl.so.2 is missing"))

    def test_gtest_part_does_not_restart_a_program_that_runs_nothing(self):
        program = stand_ins.write(self.at("tests"), "#!/bin/sh\ncase $* in *list_tests*) echo A.; echo '  One' ;;\n"
                                  "*) echo >> $0.starts; echo no GPU; exit 3 ;; esac\n")
        outcome = parts.run_gtest([program], dict(os.environ), self.at("log"), time.monotonic() + 10)
        self.assertEqual((outcome.status, outcome.detail), ("failed", "0 passed; 1 not run, from A.One on: no GPU"))
        self.assertEqual(os.path.getsize(program + ".starts"), 1)


class ProgramTest(Folder):
    def outcome(self, script, seconds=10.0, kind="program", **env):
        part = plan.Part("a part", kind, 5, ["/bin/sh", "-c", script], env)
        return parts.run(part, self.folder, self.folder, dict(os.environ), seconds, self.at("log"))

    def test_program_part_shows_the_last_line_of_output(self):
        outcome = self.outcome("echo one; echo 3 passed, 0 failed; echo")
        self.assertEqual((outcome.status, outcome.detail), ("passed", "3 passed, 0 failed"))

    def test_program_part_fails_with_the_signal_of_a_crash(self):
        outcome = self.outcome("echo half a line; kill -SEGV $$")
        self.assertEqual((outcome.status, outcome.detail), ("failed", "SIGSEGV: half a line"))

    def test_hung_program_is_killed_with_all_its_processes(self):
        os.mkfifo(self.at("held"))
        reading = os.open(self.at("held"), os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reading)
        outcome = self.outcome(f"exec 3> {self.at('held')}; sleep 600 & wait", seconds=0.5)
        self.assertEqual(outcome.status, "ran out of time")
        poll = select.poll()
        poll.register(reading, select.POLLIN)
        self.assertEqual(poll.poll(20_000), [(reading, select.POLLHUP)])  # no process holds the other end

    def test_part_is_not_run_and_names_a_missing_tool(self):
        part = plan.Part("a part", "sanitizer", 5, ["{tool:no-such-tool}", "{bin}/x"])
        outcome = parts.run(part, self.folder, self.folder, dict(os.environ), 5, self.at("log"))
        self.assertEqual((outcome.status, outcome.detail), ("not run", "no-such-tool is not installed"))

    def test_variable_that_a_part_sets_to_none_keeps_its_outer_value(self):
        with mock.patch.dict(os.environ, {"SOME_PATH": "outer"}):
            part = plan.Part("a part", "program", 5, ["/bin/sh", "-c", "echo $SOME_PATH"], {"SOME_PATH": None})
            outcome = parts.run(part, self.folder, self.folder, {**os.environ, "SOME_PATH": "inner"}, 5, self.at("log"))
        self.assertEqual(outcome.detail, "outer")

    def test_sanitizer_part_passes_only_with_a_summary_and_passed_tests(self):
        gtest = "[  PASSED  ] 3 tests.\n"
        for status, output, want in ((0, gtest + "========= ERROR SUMMARY: 0 errors\n", "passed"),
                                     (9, gtest + "========= ERROR SUMMARY: 2 errors\n", "failed"), (0, gtest, "failed"),
                                     (0, "[  PASSED  ] 0 tests.\n========= ERROR SUMMARY: 0 errors\n", "failed"),
                                     (0, gtest + "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", "passed")):
            self.assertEqual(parts.judge_sanitizer(status, output).status, want, output)


class ReportTest(Folder):
    def test_goals_are_computed_from_the_rows(self):
        rows = {r.what: r for r in goals.table(example())}
        self.assertEqual(rows["32 x 4K, GQA 8: v1 time / decode attention time"].value, 3.0)
        self.assertEqual(rows["32 x 4K, GQA 4: FP8 time / bf16 time"].value, 0.5)
        self.assertEqual(rows["decode attention, 32 x 4K, GQA 4, bf16: FlashInfer / ours"].value, 1.1)
        self.assertIsNone(rows["decode attention, 8 x 8K, GQA 4, bf16: FlashInfer / ours"].value)
        self.assertEqual(rows["qkv, 1 rows: best choice"].value, 0.625)
        self.assertEqual(rows["best choice / first guess, at worst (o, 8 rows)"].value, 1.05)
        self.assertEqual(rows["kernels of a layer"].value, 7.0)
        self.assertEqual(rows["step wall / sum of kernel times, 1 sequence"].value, 1.02)
        self.assertEqual(rows["step wall - sum of kernel times, 1 sequence, us"].value, 10.0)
        self.assertIsNone(rows["1 x 32K, GQA 8: v1 time / decode attention time"].value)

    def test_goals_show_their_share_of_the_ceiling(self):
        said = {line[0]: line[1:] for line in map(goals.said, goals.table(example()))}
        self.assertEqual(said["decode attention 32 x 4K, GQA 4, bf16"], (">= 0.88", "0.83", "0.83 of copy", "NO"))
        self.assertEqual(said["32 x 4K, GQA 8: v1 time / decode attention time"], (">= 2.5", "3", "0.75 of copy", "yes"))
        self.assertEqual(said["decode attention 1 x 32K, GQA 4, bf16"], (">= 0.6", "not measured", "-", "-"))
        self.assertEqual(said["qkv, 1 rows: best choice"][2], "0.62 of copy")

    def test_text_of_the_goals_is_shorter_than_6000_characters(self):
        text = goals.text(example())
        self.assertLess(len(text), 6000)
        self.assertIn("1 checked, 0 wrong", text)
        self.assertIn("copy 4000 GB/s", text)
        self.assertIn("decode products of 1 row: best choice", goals.text({"parts": []}))

    def test_page_and_json_contain_the_report(self):
        as_json, as_page = reports.write(example(), self.folder)
        self.assertEqual(sorted(os.listdir(self.folder)), ["2026-01-02-gpu.json", "2026-01-02-gpu.md"])
        with open(as_json, encoding="utf-8") as f:
            self.assertEqual(json.load(f), example())
        with open(as_page, encoding="utf-8") as f:
            page = f.read()
        self.assertIn("| kernel tests | passed | 3 | 9 passed | warm |", page)
        self.assertIn("a / b", page)
        self.assertIn("| decode attention 32 x 4K, GQA 4, bf16 | >= 0.88 | 0.83 | 0.83 of copy | NO |", page)
        self.assertIn("Clocks before: SM 345 MHz.", page)
        self.assertIn("PyTorch SDPA, contiguous", page)
        self.assertIn("cuDNN prefill: none", page)
        for line in page.splitlines():
            self.assertTrue(not line.startswith("|") or line.endswith("|"), line)

    def test_report_passes_only_when_tests_ran_and_results_are_right(self):
        report = example()
        self.assertTrue(reports.passed(report))
        report["bench"]["checks"].append(check(good=False))
        self.assertFalse(reports.passed(report))
        self.assertIn("2 checked, 1 wrong: decode attention: 32 x 4K, GQA 8, bf16", goals.text(report))
        report = example()
        report["parts"][0]["status"] = "ran out of time"
        self.assertFalse(reports.passed(report))
        self.assertFalse(reports.passed({"parts": []}))

    def test_run_without_benchmarks_has_a_page(self):
        report = example()
        del report["bench"]
        self.assertIn("Nothing was measured.", reports.markdown(report))

    def test_files_of_all_sections_are_merged(self):
        for section, results, copy in (("ceilings", [row("ceilings", "copy", "copy", 1.0)], 4000.0),
                                       ("decode", [row("ceilings", "copy", "copy", 1.0), *DECODE], 3900.0), ("steps", STEPS, 3800.0)):
            with open(self.at(section + ".json"), "w", encoding="utf-8") as f:
                json.dump({"rules": "fair", "ceilings": {"copy_gb_per_s": copy}, "results": results, "checks": [check()]}, f)
        with open(self.at("prefill.json"), "w", encoding="utf-8") as f:
            f.write('{"rules": "cut o')
        merged = reports.merge(self.folder, ["ceilings", "decode", "prefill", "products", "steps"])
        self.assertEqual(merged["ceilings"]["copy_gb_per_s"], 4000.0)
        self.assertEqual({s: c["copy_gb_per_s"] for s, c in merged["ceilings_by_section"].items()},
                         {"ceilings": 4000.0, "decode": 3900.0, "steps": 3800.0})
        self.assertEqual([r["section"] for r in merged["results"]], ["ceilings"] + ["decode attention"] * len(DECODE) + ["decode steps"])
        self.assertEqual(len(merged["checks"]), 3)
        self.assertIsNone(reports.merge(self.folder, ["products"]))

    def test_kernel_times_are_summed(self):
        text = ('==PROF== Connected\n"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
                '"0","a","gpu__time_duration.sum","ns","1,500"\n"1","b","gpu__time_duration.sum","us","2.5"\n')
        self.assertEqual(reports.sum_of_kernels(text), (2, 4.0))
        self.assertEqual(reports.sum_of_kernels(""), (0, 0.0))
        self.assertEqual(reports.step_kernels((22, 200.0), (50, 500.0))["per_layer"], 7.0)
        self.assertIsNone(reports.step_kernels((0, 0.0), (50, 500.0)))

    def test_summary_of_clocks_names_reasons_of_throttling(self):
        samples = [clocks.parse(["345", "2619", "40", "[N/A]", "0x1"]), clocks.parse(["1755", "2619", "61", "640.5", "0x44"])]
        self.assertEqual(clocks.summary(samples), "SM 345 to 1755 MHz, memory 2619 MHz, 40 to 61 C, 640 W; "
                         "throttled: power cap, heat (hardware)")
        self.assertIn("not throttled", clocks.summary(samples[:1]))


class RunTest(Folder):
    """Tests whole runs, with fake programs and a fake nvidia-smi."""

    def run_it(self, names, the_plan, checks=None):
        stand_ins.pack(self.at("pack"), names, CEILINGS, {"decode": DECODE, "products": PRODUCTS, "steps": STEPS},
                       checks or {"decode": [check()]})
        stand_ins.write(self.at("smi", "nvidia-smi"), stand_ins.NVIDIA_SMI)
        said = io.StringIO()
        with mock.patch.dict(os.environ, {"PATH": self.at("smi") + ":" + os.environ["PATH"]}), mock.patch.object(plan, "PARTS", the_plan), \
                mock.patch.object(sys, "argv", ["run", "--out", self.at("out"), self.at("pack")]), contextlib.redirect_stdout(said):
            status = runs.main()
        return status, said.getvalue(), reports.read_json(the_json(self.at("out")))

    def some(self, *names):
        return [part for part in plan.PARTS if part.name in names]

    def test_run_passes_and_ends_with_the_goals_when_all_parts_pass(self):
        status, said, report = self.run_it(["A.One"], self.some("bench ceilings", "smoke tests", "bench decode", "bench products",
                                                                "step answers of graphs", "bench steps", "kernel tests"))
        self.assertEqual(status, 0, said)
        self.assertEqual([p["status"] for p in report["parts"]], ["passed"] * 7)
        self.assertTrue(said.endswith(goals.text(report) + "\n"))
        self.assertEqual(len(report["bench"]["results"]), len(DECODE + PRODUCTS + STEPS))
        self.assertIn("SM 1755 MHz", report["clocks"]["during"])
        self.assertIn("throttled: power cap", report["clocks"]["after"])
        with open(self.at("out", "gpu-logs.txt"), encoding="utf-8") as f:
            logs = f.read()
        self.assertIn("==== smoke tests\n", logs)
        self.assertIn("[       OK ] A.One", logs)
        self.assertIn("1755.0 2619.0 61.0 640.5 power cap", logs)

    def test_parts_that_crash_or_hang_do_not_stop_the_other_parts(self):
        the_plan = self.some("bench ceilings", "bench decode") + [
            plan.Part("a crash", "program", 5, ["/bin/sh", "-c", "kill -SEGV $$"]),
            plan.Part("a hang", "program", 0.5, ["/bin/sh", "-c", "echo waiting; exec sleep 600"]),
            plan.Part("no command", "program", 5, ["{bin}/nothing"])] + self.some("kernel tests")
        status, said, report = self.run_it(["A.One", "A.Crashes", "A.Two"], the_plan)
        self.assertEqual(status, 1)
        self.assertEqual([p["status"] for p in report["parts"]], ["passed", "passed", "failed", "ran out of time", "failed", "failed"])
        self.assertEqual(report["parts"][3]["detail"], "after 1 s: waiting")
        self.assertIn("2 passed; A.Crashes took its process along (SIGSEGV", report["parts"][5]["detail"])
        self.assertTrue(said.endswith(goals.text(report) + "\n"))
        self.assertIn("0.83 of copy", said)

    def test_report_is_written_after_every_part(self):
        pages = []
        write = reports.write
        with mock.patch.object(reports, "write", lambda report, out: pages.append(len(report["parts"])) or write(report, out)):
            self.run_it(["A.One"], self.some("bench ceilings", "smoke tests"))
        self.assertEqual(pages, [0, 1, 2])

    def test_terminated_run_ends_its_part_and_shows_the_goals(self):
        stand_ins.pack(self.at("pack"), ["A.Hangs"], CEILINGS, {"decode": DECODE}, {})
        stand_ins.write(self.at("smi", "nvidia-smi"), stand_ins.NVIDIA_SMI)
        command = [sys.executable, os.path.join(HERE, "run"), "--only", "bench decode,kernel tests", "--out", self.at("out"), self.at("pack")]
        with subprocess.Popen(command, env={**os.environ, "PATH": self.at("smi") + ":" + os.environ["PATH"]}, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as process:
            for line in process.stdout:
                if line == "== kernel tests\n":
                    process.terminate()
                    break
            said = process.stdout.read()
        self.assertEqual(process.returncode, 1)
        self.assertTrue(said.endswith(goals.text(reports.read_json(the_json(self.at("out")))) + "\n"), said)

    def test_run_fails_when_a_benchmark_has_a_wrong_result(self):
        status, said, _ = self.run_it(["A.One"], self.some("bench decode", "kernel tests"), {"decode": [check(good=False)]})
        self.assertEqual(status, 1)
        self.assertIn("1 checked, 1 wrong", said)


class ClocksTest(Folder):
    def test_clock_log_stops_sampling_when_nvidia_smi_does_not_answer(self):
        stand_ins.write(self.at("nvidia-smi"), stand_ins.NVIDIA_SMI)
        with mock.patch.dict(os.environ, {"PATH": self.at() + ":" + os.environ["PATH"]}):
            log = clocks.Log()
            self.addCleanup(log.stop)
            self.assertEqual(log.samples[0]["reasons"], ["power cap"])
            asked = []
            with mock.patch.object(clocks, "query", lambda *a, **k: asked.append(a)):
                log.sample()
                log.sample()
        self.assertEqual(len(asked), 1)


class PackTest(Folder):
    """Packs fake programs, because the real ones take long to build, and uses the pack in an empty environment."""

    @classmethod
    def setUpClass(cls):
        """Makes one pack, of which each test unpacks a copy."""
        cls.made = cls("pack")
        cls.made.setUp()
        cls.addClassCleanup(cls.made.doCleanups)
        cls.packed = cls.made.pack()

    def pack(self, *flags):
        build = self.at("build")
        for name in ("quire", "quire-worker", "quire-bench-kernels", "gpu_kernel_tests", "gpu_one_shot_test", "gpu_engine_tests",
                     "gpu_block_moves"):
            os.makedirs(build, exist_ok=True)
            shutil.copy("/bin/true", os.path.join(build, name))
        os.makedirs(self.at("mpi", "lib", "openmpi"), exist_ok=True)
        os.makedirs(self.at("mpi", "share"), exist_ok=True)
        shutil.copy("/bin/true", self.at("mpi", "lib", "openmpi", "mca_some.so"))
        os.makedirs(self.at("tools"), exist_ok=True)
        for name in ("mpirun", "orted"):
            shutil.copy("/bin/true", self.at("tools", name))
        stand_ins.write(self.at("tools", "ompi_info"), "#!/bin/sh\ncase $2 in pkglibdir) echo path:pkglibdir:{folder}/mpi/lib/openmpi ;; "
                        "*) echo path:pkgdatadir:{folder}/mpi/share ;; esac\n", folder=self.folder)
        env = {**os.environ, "PATH": self.at("tools") + ":" + os.environ["PATH"]}
        return subprocess.run([os.path.join(HERE, "pack"), "--no-build", "--build", build, *flags], env=env, capture_output=True,
                              text=True, check=False)

    def unpack(self):
        self.assertEqual(self.packed.returncode, 0, self.packed.stdout + self.packed.stderr)
        archive = self.made.at("build", "gpu-pack.tar.xz")
        subprocess.run([sys.executable, "-m", "tarfile", "-e", archive, self.at("there")], check=True)
        return self.at("there", "gpu-pack")

    def bare(self, command, path="", **env):
        """Runs a command in an empty folder, with an empty environment."""
        empty = tempfile.mkdtemp(dir=self.folder)
        return subprocess.run(command, cwd=empty, env={"PATH": path, **env}, capture_output=True, text=True, check=False)

    def test_run_prints_one_line_without_a_gpu(self):
        pack = self.unpack()
        ran = self.bare([sys.executable, "-I", os.path.join(pack, "tests", "gpu", "run")])
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr), (0, "no GPU: nothing was run\n", ""))

    def test_pack_contains_everything_that_a_run_needs(self):
        pack = self.unpack()
        stand_ins.pack(pack, ["A.One"], CEILINGS, {"decode": DECODE}, {})
        stand_ins.write(self.at("smi", "nvidia-smi"), stand_ins.NVIDIA_SMI)
        ran = self.bare([sys.executable, os.path.join(pack, "tests", "gpu", "run"), "--out", self.at("out")], path=self.at("smi"))
        outcomes = {p["name"]: p for p in reports.read_json(the_json(self.at("out")))["parts"]}
        self.assertEqual(list(outcomes), [part.name for part in plan.PARTS], ran.stderr)
        self.assertEqual(outcomes["kernel tests"]["status"], "passed")
        self.assertEqual(outcomes["bench decode"]["status"], "passed")
        # The fake server ends immediately, which proves that the pack has all files that are needed until a server
        # starts.
        self.assertIn("the server ended with 0", outcomes["tensor parallel tests"]["detail"])
        self.assertEqual(ran.returncode, 1)

    def test_kernels_can_be_rebuilt_from_the_pack(self):
        pack = self.unpack()
        stand_ins.write(self.at("nvcc", "nvcc"), "#!/bin/sh\n")
        stand_ins.write(os.path.join(pack, "lib", "libquire_kernels_cuda.so"), "")
        ran = self.bare(["/bin/bash", os.path.join(pack, "tests", "gpu", "rebuild"), "--check"], path=self.at("nvcc") + ":/usr/bin:/bin")
        self.assertRegex(ran.stdout, r"^\d+ sources with nvcc .*sm_90a", ran.stderr)
        included = subprocess.run(["grep", "-rhoE", '#include "[^"]+"', os.path.join(pack, "kernels", "cuda")], capture_output=True,
                                  text=True, check=True).stdout
        for name in set(re.findall('"(.*)"', included)):
            self.assertTrue(os.path.exists(os.path.join(pack, name)), name)

    def test_pack_contains_the_mpi_plugins_of_the_launcher(self):
        with open(os.path.join(HERE, "..", "..", "coordinator", "cluster", "launch", "launcher.cc"), encoding="utf-8") as f:
            asked = re.findall(r'Mca\("(\w+)", "([\w,]+)"\)', f.read())
        with open(os.path.join(HERE, "pack"), encoding="utf-8") as f:
            left_out = re.search(r"^skip='(.*)'", f.read(), re.M).group(1)
        self.assertIn(("plm", "isolated"), asked)
        for framework, components in asked:
            for component in components.split(","):
                self.assertIsNone(re.search(left_out, f"mca_{framework}_{component}.so"))

    def test_pack_fails_when_it_is_too_large(self):
        packed = self.pack("--limit", "1")
        self.assertEqual(packed.returncode, 1)
        self.assertIn("larger than 1 MiB", packed.stderr)
        self.assertFalse(os.path.exists(self.at("build", "gpu-pack.tar.xz")))


if __name__ == "__main__":
    unittest.main()
