#!/usr/bin/env python3
"""A second configuration compiles nothing anew: deploy/quickstart and tests/run each configure the same build folder, and
what one has built serves the other."""
import json
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def configure(folder, *options):
    """The compile commands of every file, by the object that comes of it."""
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DQUIRE_CUDA=OFF", *options],
                   check=True, stdout=subprocess.DEVNULL, timeout=300)
    commands = json.loads((folder / "compile_commands.json").read_text())
    return {entry["command"].partition(" -o ")[2].split()[0]: entry["command"] for entry in commands}


class ConfigureTest(unittest.TestCase):
    def test_the_tests_build_on_what_quickstart_built(self):
        with tempfile.TemporaryDirectory() as folder:
            product = configure(pathlib.Path(folder), "-DQUIRE_BUILD_TESTS=OFF")
            self.assertGreater(len(product), 100)
            everything = configure(pathlib.Path(folder), "-DQUIRE_BUILD_TESTS=ON")
            self.assertGreater(len(everything), len(product))
            for output, command in product.items():
                self.assertEqual(everything[output], command)


if __name__ == "__main__":
    unittest.main()
