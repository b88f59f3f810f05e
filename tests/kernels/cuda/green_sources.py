"""Remembers the sources that a compiler accepted without a warning, so that a test compiles only changed sources. A source's digest
covers the command, the compiler's version, and the code of the source and of all files that it includes by a quoted name. Comments and
empty lines do not count. Digests are in two files: a list in the repository, for clean checkouts, and a file in the user's cache."""
import hashlib
import json
import os
import re
import subprocess
import tempfile

# Matches a comment or a literal. A literal may contain text that looks like a comment. A quote after a digit or letter separates
# digits, as in 1'000.
COMMENT_OR_LITERAL = re.compile(r"""//(?:\\\n|[^\n])*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])+'""", re.S)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.M)


def code_of(text):
    """Returns the text without comments, without white space at the ends of lines, and without empty lines."""
    text = COMMENT_OR_LITERAL.sub(lambda found: " " if found[0].startswith("/") else found[0], text)
    return "\n".join(line.rstrip() for line in text.split("\n") if line.strip())


class GreenSources:
    """Stores the digests of accepted sources. A quoted name is searched in the folder of the including file, then in `folders`. Paths
    are relative to `root`; `recorded` is the list in the repository, `cached` the file in the cache."""

    def __init__(self, root, folders, recorded, cached):
        self.root, self.folders, self.recorded, self.cached = root, folders, recorded, cached
        self.known = self._read(recorded) | self._read(cached)
        self.green = {}  # digest -> source
        self.skipped = 0
        self.files = {}  # path -> (digest of its code, quoted names that it includes); None for a path that is no file

    @staticmethod
    def _read(path):
        try:
            with open(path, encoding="utf-8") as f:
                return {line.split()[0] for line in f if line.strip() and not line.startswith("#")}
        except OSError:
            return set()

    def _file(self, path):
        if path not in self.files:
            full = os.path.join(self.root, path)
            if not os.path.isfile(full):
                self.files[path] = None
            else:
                with open(full, encoding="utf-8") as f:
                    code = code_of(f.read())
                self.files[path] = (hashlib.sha256(code.encode()).hexdigest(), INCLUDE.findall(code))
        return self.files[path]

    def read_by(self, source):
        """Returns {path: digest of its code} for the source and all files that it includes, even under conditions that are false."""
        found, waiting = {}, [os.path.normpath(source)]
        while waiting:
            path = waiting.pop()
            if path in found:
                continue
            found[path], names = self._file(path)
            for name in names:
                places = (os.path.normpath(os.path.join(folder, name)) for folder in (os.path.dirname(path), *self.folders))
                waiting += [place for place in places if self._file(place)][:1]
        return found

    def digest(self, source, key):
        return hashlib.sha256(json.dumps([key, sorted(self.read_by(source).items())]).encode()).hexdigest()

    def compile(self, command, key, source, stricter=()):
        """Runs the command in the root, unless the source was accepted in its present state. The result also depends on `key`: the
        command's words without paths of this machine, and the compiler's version. `stricter` has the keys of commands that accept less: a
        source that one of these commands accepted is not compiled again. Returns the compiler's complaints; "" if there are
        none."""
        digests = [self.digest(source, each) for each in (*stricter, key)]
        digest = next((each for each in digests if each in self.known), digests[-1])
        if digest in self.known:
            self.skipped += 1
        else:
            result = subprocess.run(command, cwd=self.root, capture_output=True, text=True)
            if result.returncode != 0:
                return f"{source}:\n{result.stdout}{result.stderr}"
        self.green[digest] = source
        return ""

    def save(self, record=False):
        """Writes the digests of accepted sources into the cache and, if `record` is set, into the repository. A file is replaced
        atomically, so another run reads the old file or the new one."""
        for path in [self.cached] + [self.recorded] * record:
            handle, name = tempfile.mkstemp(dir=os.path.dirname(path))
            with os.fdopen(handle, "w", encoding="utf-8") as f:
                f.write("# Written by nvcc_test.py --record: digests of sources that compiled without a warning (green_sources.py).\n")
                f.writelines(f"{digest} {source}\n" for digest, source in sorted(self.green.items(), key=lambda one: (one[1], one[0])))
            os.chmod(name, 0o644)
            os.replace(name, path)
