#!/usr/bin/env python3
"""Tests that a second configuration recompiles nothing, and where the version comes from. deploy/quickstart and tests/run each configure
the same build
folder, and each uses the objects that the other has built."""
import json
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def configure(folder, *options):
    """Returns the compile command of every object file."""
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DQUIRE_CUDA=OFF", *options],
                   check=True, stdout=subprocess.DEVNULL, timeout=300)
    commands = json.loads((folder / "compile_commands.json").read_text())
    return {entry["command"].partition(" -o ")[2].split()[0]: entry["command"] for entry in commands}


class ConfigureTest(unittest.TestCase):
    def test_configuring_the_tests_keeps_the_compile_commands_of_quickstart(self):
        with tempfile.TemporaryDirectory() as folder:
            product = configure(pathlib.Path(folder), "-DQUIRE_BUILD_TESTS=OFF")
            self.assertGreater(len(product), 100)
            everything = configure(pathlib.Path(folder), "-DQUIRE_BUILD_TESTS=ON")
            self.assertGreater(len(everything), len(product))
            for output, command in product.items():
                self.assertEqual(everything[output], command)


class VersionTest(unittest.TestCase):
    """Tests the version that cmake/QuireVersion.cmake makes from a checkout's tags."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=self.folder, check=True, stdout=subprocess.DEVNULL)

    def version(self):
        script = self.folder / "print.cmake"
        script.write_text(f'include("{ROOT}/cmake/QuireVersion.cmake")\nmessage("${{QUIRE_VERSION}}")\n')
        said = subprocess.run(["cmake", "-DPROJECT_VERSION=9.8.7", "-P", script], cwd=self.folder, check=True, capture_output=True, text=True)
        return said.stderr.strip()

    def test_version_comes_from_the_git_tag_or_else_from_the_cmake_project(self):
        self.assertEqual(self.version(), "9.8.7", "no checkout")
        self.git("init", "-q")
        self.git("commit", "-q", "--allow-empty", "-m", "first")
        self.assertEqual(self.version(), "9.8.7", "no tag")
        self.git("tag", "version-two")
        self.assertEqual(self.version(), "9.8.7", "a tag of another kind")
        self.git("tag", "v1.20.3")
        self.assertEqual(self.version(), "1.20.3")
        self.git("commit", "-q", "--allow-empty", "-m", "second")
        self.assertRegex(self.version(), r"^1\.20\.3\+1\.g[0-9a-f]+$")
        self.git("tag", "v1.21.0-rc1")
        self.assertEqual(self.version(), "9.8.7", "not what a version looks like")


if __name__ == "__main__":
    unittest.main()
