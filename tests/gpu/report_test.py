#!/usr/bin/env python3
"""The writer of GPU reports, and how run judges what programs say, on made-up results."""
import fnmatch
import importlib.machinery
import importlib.util
import json
import os
import re
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


def load(name):
    loader = importlib.machinery.SourceFileLoader("gpu_" + name.split(".")[0], os.path.join(HERE, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
sys.path.insert(0, HERE)
reports, runs = load("report.py"), load("run")


def row(section, case, variant, micros, **more):
    return {"section": section, "case": case, "variant": variant, "median_us": micros, "min_us": micros * 0.9,
            "max_us": micros * 1.1, "formula": "bytes", **more}


def example():
    return {"date": "2026-01-02", "commit": "abc", "arch": "sm_90a",
            "facts": {"gpu": "Some GPU", "driver": "1.2", "clocks": "SM 1 MHz"},
            "parts": [{"name": "kernel tests", "status": "passed", "seconds": 3.2, "tests": True, "detail": "9 passed"},
                      {"name": "bench kernels", "status": "failed", "seconds": 1, "tests": False, "detail": "a | b"}],
            "bench": {"ceilings": {"copy_gb_per_s": 4000.0, "read_gb_per_s": 4200.0, "bf16_tflop_per_s": 700.0}, "rules": "fair",
                      "results": [row("decode attention", "32 x 4K, GQA 8, bf16", "decode attention", 100.0, gb_per_s=3000.0, of_copy=0.75),
                                  row("decode attention", "32 x 4K, GQA 8, bf16", "v1", 300.0, gb_per_s=1000.0, of_copy=0.25),
                                  row("decode attention", "32 x 4K, GQA 4, bf16", "decode attention", 110.0, of_copy=0.83),
                                  row("decode attention", "32 x 4K, GQA 4, FP8", "decode attention", 55.0),
                                  row("decode products", "qkv, 1 rows", "cuBLASLt, first guess", 20.0, bytes=40e6, m=1),
                                  row("decode products", "qkv, 1 rows", "skinny, wide", 16.0, bytes=40e6, m=1),
                                  row("decode steps", "1 sequences of 1024, 6 layers", "one step ahead", 510.0)]},
            "others": {"notes": ["FlashInfer is not installed"],
                       "results": [row("decode attention", "32 x 4K, GQA 8, bf16", "PyTorch SDPA, contiguous", 120.0)]},
            "step_kernels": {"batch": 1, "context": 1024, "layers": 6, "kernels": 50, "sum_us": 500.0, "per_layer": 7.0}}


class ReportTest(unittest.TestCase):
    def test_ratios_follow_from_the_rows(self):
        values = {what: value for what, _, value in reports.compared(example())}
        self.assertEqual(values["32 x 4K, GQA 8: v1 time / decode attention time"], 3.0)
        self.assertEqual(values["32 x 4K, GQA 4: FP8 time / bf16 time"], 0.5)
        self.assertEqual(values["qkv, 1 rows: best choice / first guess"], 0.8)
        self.assertAlmostEqual(values["qkv, 1 rows: best choice, of copy"], 2500 / 4000)
        self.assertEqual(values["kernels of a layer"], 7.0)
        self.assertEqual(values["step wall / sum of kernel times, 1 sequence(s), 6 layers"], 1.02)
        self.assertIsNone(values["1 x 32K, GQA 8: v1 time / decode attention time"])

    def test_page_and_json_hold_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            as_json, as_page = reports.write(example(), folder)
            with open(as_json, encoding="utf-8") as f:
                self.assertEqual(json.load(f), example())
            with open(as_page, encoding="utf-8") as f:
                page = f.read()
        self.assertIn("| kernel tests | passed | 3 | 9 passed |", page)
        self.assertIn("a / b", page)
        self.assertIn("| decode attention 32 x 4K, GQA 4, bf16 | >= 0.88 of copy | 0.83 |", page)
        self.assertIn("| decode attention 1 x 32K, GQA 4, bf16 | >= 0.60 of copy | not measured |", page)
        self.assertIn("PyTorch SDPA, contiguous", page)
        self.assertIn("FlashInfer is not installed", page)
        for line in page.splitlines():
            self.assertTrue(not line.startswith("|") or line.endswith("|"), line)

    def test_passes_only_when_tests_ran_and_passed(self):
        report = example()
        self.assertTrue(reports.passed(report))
        report["parts"][0]["status"] = "ran out of time"
        self.assertFalse(reports.passed(report))
        self.assertFalse(reports.passed({"parts": []}))

    def test_a_run_without_benchmarks_has_a_page(self):
        report = example()
        del report["bench"]
        self.assertIn("Nothing was measured.", reports.markdown(report))

    def test_what_programs_say_is_judged(self):
        judge = runs.Run.judge
        self.assertEqual(judge(0, "[  PASSED  ] 12 tests.\n[  SKIPPED ] 2 tests, listed below:\n"), ("passed", "12 passed, 2 skipped"))
        self.assertEqual(judge(1, "[  PASSED  ] 1 test.\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] A.B\n"),
                         ("failed", "1 passed, 1 failed: A.B"))
        self.assertEqual(judge(0, "[  PASSED  ] 0 tests.\n")[0], "failed")
        self.assertEqual(judge(-11, "half a line"), ("failed", "exit status -11: half a line"))
        self.assertEqual(judge(0, "3 passed, 0 failed\n"), ("passed", "3 passed, 0 failed"))

    def test_sanitizers_must_reach_their_summary(self):
        judge = runs.sanitized("memcheck")
        gtest = "[  PASSED  ] 3 tests.\n"
        self.assertEqual(judge(0, gtest + "========= ERROR SUMMARY: 0 errors\n")[0], "passed")
        self.assertEqual(judge(9, gtest + "========= ERROR SUMMARY: 2 errors\n")[0], "failed")
        self.assertEqual(judge(0, gtest)[0], "failed")
        self.assertEqual(judge(0, gtest + "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n")[0], "passed")

    def test_every_name_is_that_of_a_test(self):
        folder = os.path.join(HERE, "..", "kernels", "cuda")
        names = []
        for file in os.listdir(folder):
            if file.endswith("_test.cc"):
                with open(os.path.join(folder, file), encoding="utf-8") as f:
                    names += [".".join(pair) for pair in re.findall(r"^TEST\((\w+), (\w+)", f.read(), re.M)]
        for pattern in runs.SANITIZED + [p for group in runs.KERNEL_TESTS.values() for p in group.lstrip("-").split(":")]:
            self.assertTrue(fnmatch.filter(names, pattern), pattern)

    def test_kernel_times_are_added_up(self):
        text = ('==PROF== Connected\n"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
                '"0","a","gpu__time_duration.sum","ns","1,500"\n"1","b","gpu__time_duration.sum","us","2.5"\n')
        self.assertEqual(reports.sum_of_kernels(text), (2, 4.0))
        self.assertEqual(reports.sum_of_kernels(""), (0, 0.0))


if __name__ == "__main__":
    unittest.main()
