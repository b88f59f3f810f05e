"""Compares documents with the program: what a document names exists, and what exists is documented (links, flags, endpoints, metrics). Also
tests shell completion and the manual page."""
import glob
import json
import os
import re
import subprocess
import tempfile
import unittest
import urllib.request

import verdict
from server import QUIRE, ROOT, TINY, Server

PAGES = sorted(glob.glob(os.path.join(ROOT, "*.md")) + glob.glob(os.path.join(ROOT, "docs", "*.md")) +
               [os.path.join(ROOT, folder, "README.md") for folder in ("comm", "coordinator", "worker", "kernels", "deploy")])
USERS = [page for page in PAGES if os.path.relpath(page, ROOT) in ("README.md", "SECURITY.md", "deploy/README.md") or os.path.dirname(page) == os.path.join(ROOT, "docs")]
# Flags of scripts and other programs in documents: quickstart, bench kernels, mutants, vLLM, CMake.
FOREIGN = {"--ask", "--setup-only", "--only", "--api-key", "--check", "--build", "--as-listed"}


def text_of(page):
    with open(page, encoding="utf-8") as f:
        return f.read()


def flags_of(*command, program=QUIRE):
    """Returns the long flags in the help of a command and of its subcommands."""
    told = subprocess.run([program, *command, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    flags = set(re.findall(r"^ +(?:-\w,)?(--[a-z][a-z0-9-]*)", told, re.M))
    inside = told.partition("Subcommands:\n")[2].partition("\n\n")[0]  # examples may follow
    return flags.union(*(flags_of(*command, name) for name in re.findall(r"^  ([a-z][a-z-]*) ", inside, re.M) if command + (name,) != ("bench", "kernels")))


def anchor(title):
    """Returns a heading's anchor, as hosting sites make them."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


class TextTest(unittest.TestCase):
    def test_links_in_documents_have_targets(self):
        count = 0
        for page in PAGES:
            for target in re.findall(r"\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"", text_of(page)):
                target = target[0] or target[1]
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, part = target.partition("#")
                file = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
                self.assertTrue(os.path.exists(file), f"{page}: {target}")
                if part:
                    titles = re.findall(r"^#+ (.*)$", text_of(file), re.M)
                    self.assertIn(part, [anchor(title) for title in titles], f"{page}: {target}")
                count += 1
        self.assertGreater(count, 40)

    def test_flags_in_documents_exist(self):
        known = flags_of() | flags_of(program=QUIRE + "-worker") | FOREIGN
        self.assertGreater(len(known), 60)
        for page in USERS:
            if os.path.basename(page) == "flags.md":  # flags of other servers; ForeignFlagsTest compares the page with the table
                continue
            for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text_of(page)):
                self.assertIn(flag, known, page)

    def test_protocol_page_names_the_version_of_the_wire_format(self):
        header = text_of(os.path.join(ROOT, "comm", "wire", "messages.h"))
        version = re.search(r"kProtocolVersion = (\d+);", header)[1]
        page = text_of(os.path.join(ROOT, "comm", "PROTOCOL.md"))
        self.assertEqual(re.findall(r"(?:workers, |\| )version (?:\| )?(\d+)", page), [version, version])

    def test_settings_page_has_a_row_for_every_setting(self):
        """Compares the page with options_test.cc, which lists all keys and fails if its own list lacks one."""
        with open(os.path.join(ROOT, "tests", "coordinator", "options_test.cc"), encoding="utf-8") as f:
            listed = f.read().partition("kValues = {")[2].partition("};")[0]
        rows = re.findall(r"^\| `([\w.]+)` \| (.*?) \|", text_of(os.path.join(ROOT, "docs", "settings.md")), re.M)
        self.assertEqual([key for key, _ in rows], re.findall(r'^    \{"([\w.]+)", ', listed, re.M))
        flags = {flag for _, told in rows for flag in re.findall(r"--[a-z-]+", told)}
        self.assertEqual(flags | {"--help", "--set", "--fetch"}, flags_of("serve"))

    def test_files_named_in_documents_exist(self):
        for page in USERS:
            for name in re.findall(r"`((?:coordinator|worker|kernels|comm|deploy|tests|docs|cmake)/[\w./-]+\.(?:cc|h|cuh|cu|py|yaml|md|json))`", text_of(page)):
                self.assertTrue(os.path.exists(os.path.join(ROOT, name)), f"{page}: {name}")


class CompletionTest(unittest.TestCase):
    @staticmethod
    def said(*command):
        return subprocess.run([QUIRE, *command], capture_output=True, text=True, timeout=60, check=True).stdout

    def completed(self, line):
        """Returns the completions that bash offers for the last word of a line."""
        script = self.said("completion", "bash") + """
read -ra COMP_WORDS <<< "$LINE"
[[ $LINE == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_quire
echo "${COMPREPLY[@]}"
"""
        done = subprocess.run(["bash", "-c", script], env={**os.environ, "LINE": line}, capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash_completion_offers_commands_flags_and_values(self):
        self.assertEqual(self.completed("quire ser"), ["serve"])
        self.assertEqual(self.completed("quire bench l"), ["latency"])
        self.assertEqual(set(self.completed("quire serve --")), flags_of("serve"))
        self.assertEqual(self.completed("quire completion "), ["bash", "zsh", "fish"])
        self.assertEqual(self.completed("quire serve ./fi"), [], "then bash looks for files")

    def test_completion_scripts_exist_for_zsh_and_fish(self):
        self.assertIn("bashcompinit", self.said("completion", "zsh"))
        fish = self.said("completion", "fish")
        self.assertIn("-f -a serve -d 'Launch the workers and serve the OpenAI API'", fish)
        self.assertIn("__fish_seen_subcommand_from bench; and __fish_seen_subcommand_from latency", fish)

    def test_manual_page_has_every_flag(self):
        page = self.said("manual").replace("\\-", "-")
        self.assertTrue(page.startswith(".TH QUIRE 1"))
        for flag in flags_of():
            self.assertIn(flag, page)


class ServerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.server = Server("-tp", "1", "--num-kv-blocks", "100", "--swap-space", "1", "--batch-dir", folder.name,
                            "--kv-disk", os.path.join(folder.name, "kv"), model=TINY)
        cls.addClassCleanup(cls.server.__exit__)

    def test_api_page_lists_the_endpoints_of_the_openapi_schema(self):
        row = next(line for line in text_of(os.path.join(ROOT, "docs", "api.md")).splitlines() if line.startswith("| 8000"))
        told = {word for word in row.split("`") if word.startswith("/")}
        with urllib.request.urlopen(self.server.url + "/openapi.json", timeout=20) as response:
            paths = {re.sub(r"\{.*", "", path) for path in json.load(response)["paths"]}
        self.assertEqual(told - {"/", "/chat"}, paths - {"/", "/chat"})

    def test_metrics_page_lists_every_metric_with_its_type(self):
        self.server.post("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 4})
        page = self.server.get("/metrics", admin=True)
        types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M))
        rows = re.findall(r"^\| `([\w:]+)` \| (\w+) \|", text_of(os.path.join(ROOT, "docs", "metrics.md")), re.M)
        self.assertEqual(dict(rows), types)
        self.assertEqual(len(rows), len(types), "a name stands there once")


if __name__ == "__main__":
    verdict.run_tests()
