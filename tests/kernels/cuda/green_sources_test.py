"""Tests that a source is compiled again exactly when a change can change whether the compiler accepts it."""
import os
import sys
import tempfile
import unittest

from green_sources import GreenSources, code_of

SOURCE = '#include "inner.h"\nint f() { return kInner; }\n'
INNER = '#pragma once\n#include "deep.h"\nconstexpr int kInner = kDeep;\n'
DEEP = "#pragma once\nconstexpr int kDeep = 1;\n"


class GreenSourcesTest(unittest.TestCase):
    def setUp(self):
        self.root = self.enterContext(tempfile.TemporaryDirectory())
        os.makedirs(os.path.join(self.root, "lib"))
        self.write("a.cu", SOURCE)
        self.write("lib/inner.h", INNER)
        self.write("lib/deep.h", DEEP)

    def write(self, path, text):
        with open(os.path.join(self.root, path), "w", encoding="utf-8") as f:
            f.write(text)

    def run_once(self, key="nvcc 1", status=0, record=False, stricter=()):
        """Compiles a.cu, and returns whether the compiler ran."""
        green = GreenSources(self.root, ("lib",), os.path.join(self.root, "recorded"), os.path.join(self.root, "cached"))
        error = green.compile([sys.executable, "-c", f"raise SystemExit({status})"], key, "a.cu", stricter)
        self.assertEqual(bool(error), status != 0)
        green.save(record)
        return green.skipped == 0

    def test_source_is_compiled_once_while_nothing_changes(self):
        self.assertTrue(self.run_once())
        self.assertFalse(self.run_once())

    def test_source_is_compiled_again_when_code_that_it_includes_has_changed(self):
        self.run_once()
        for path, text in (("a.cu", SOURCE + "int g();\n"), ("lib/inner.h", INNER + "int h();\n"), ("lib/deep.h", DEEP.replace("1", "2"))):
            self.write(path, text)
            self.assertTrue(self.run_once(), path)
            self.assertFalse(self.run_once(), path)

    def test_source_is_compiled_again_when_a_nearer_header_takes_the_name(self):
        self.run_once()
        self.write("inner.h", "constexpr int kInner = 3;\n")
        self.assertTrue(self.run_once())

    def test_source_is_compiled_again_when_the_command_or_the_compiler_has_changed(self):
        self.run_once()
        self.assertTrue(self.run_once(key="nvcc 2"))

    def test_source_is_not_compiled_again_when_a_stricter_command_accepted_it(self):
        self.run_once(key="strict")
        self.assertFalse(self.run_once(key="quick", stricter=["strict"]))
        self.assertFalse(self.run_once(key="strict"), "the stricter verdict is remembered")

    def test_source_is_compiled_again_when_only_a_less_strict_command_accepted_it(self):
        self.run_once(key="quick", stricter=["strict"])
        self.assertFalse(self.run_once(key="quick", stricter=["strict"]))
        self.assertTrue(self.run_once(key="strict"))

    def test_source_is_compiled_again_when_its_last_compilation_failed(self):
        self.assertTrue(self.run_once(status=1))
        self.assertTrue(self.run_once())

    def test_source_is_not_compiled_again_when_only_comments_and_empty_lines_have_changed(self):
        self.run_once()
        self.write("lib/deep.h", "// One.\n#pragma once\n\n/* two\n lines */\nconstexpr int kDeep = 1;  // three\n")
        self.assertFalse(self.run_once())

    def test_recorded_source_is_not_compiled_again_without_a_cache(self):
        self.run_once(record=True)
        os.remove(os.path.join(self.root, "cached"))
        self.assertFalse(self.run_once())

    def test_run_without_record_does_not_change_the_recorded_list(self):
        self.run_once()
        self.assertFalse(os.path.exists(os.path.join(self.root, "recorded")))

    def test_code_keeps_literals_that_look_like_comments(self):
        for text in ('s = "// no comment";', 's = "a\\"// b";', "c = '\"'; d = \"/* x */\";", 'r = R"(// "raw" )";', "n = 1'000'000; s = \"//\";"):
            self.assertEqual(code_of(text), text)
        self.assertEqual(code_of("n = 1'000;  // a thousand, not '1'\nm = '/';"), "n = 1'000;\nm = '/';")
        self.assertEqual(code_of("a; // goes on \\\n in the next line\nb;"), "a;\nb;")


unittest.main()
