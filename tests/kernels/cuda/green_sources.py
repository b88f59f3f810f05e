"""What a compiler found nothing against, kept between runs in the user's cache: a source is compiled again only when a file that the
compiler read for it has changed, or the command, or the compiler."""
import hashlib
import json
import os
import subprocess
import tempfile


def digest_of(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def read_dependencies(path):
    """The files that a makefile rule, written by a compiler's -MD, names behind its colon."""
    with open(path, encoding="utf-8") as f:
        rule = f.read().replace("\\\n", " ")
    return rule.split(": ", 1)[1].split()


class GreenSources:
    """A dictionary from a command's digest to {file that was read: its digest}, in a file of the cache. Only what `compile` was asked for
    is kept."""

    def __init__(self, root):
        self.root = root
        folder = subprocess.run([os.path.join(root, "deploy", "user_cache.py"), "folder"], capture_output=True, text=True, check=True).stdout.strip()
        self.path = os.path.join(folder, "nvcc_test.json")
        self.kept, self.digests = {}, {}
        self.skipped = 0
        try:
            with open(self.path, encoding="utf-8") as f:
                self.before = json.load(f)
        except (OSError, ValueError):
            self.before = {}

    def digest(self, path):
        if path not in self.digests:
            full = os.path.join(self.root, path)
            self.digests[path] = digest_of(full) if os.path.isfile(full) else None
        return self.digests[path]

    def compile(self, command, version, source):
        """Runs the command in the project's root, unless it did well with all files as they are. Returns what the compiler has against the
        source; nothing if all is well."""
        key = hashlib.sha256(json.dumps([command, version]).encode()).hexdigest()
        files = self.before.get(key)
        if files and all(self.digest(path) == digest for path, digest in files.items()):
            self.kept[key] = files
            self.skipped += 1
            return ""
        with tempfile.TemporaryDirectory() as scratch:
            rule = os.path.join(scratch, "rule.d")
            result = subprocess.run([*command, "-MD", "-MF", rule], cwd=self.root, capture_output=True, text=True)
            if result.returncode != 0:
                return f"{source}:\n{result.stdout}{result.stderr}"
            self.kept[key] = {path: self.digest(path) for path in read_dependencies(rule)}
        return ""

    def save(self):
        """Replaces the file at once, so that another run reads the old one or the new one."""
        handle, name = tempfile.mkstemp(dir=os.path.dirname(self.path))
        with os.fdopen(handle, "w", encoding="utf-8") as f:
            json.dump(self.kept, f)
        os.replace(name, self.path)
