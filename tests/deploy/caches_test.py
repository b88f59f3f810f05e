"""Tests the caches of the scripts that fetch files (deploy/user_cache.py): a folder of the user that no other user can reach or replace.
Nothing from this folder may be compiled or run before its hash has been compared with a hash in this tree."""
import concurrent.futures
import glob
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import verdict  # noqa: E402

DEPLOY = os.path.join(ROOT, "deploy")
CACHE = [sys.executable, "-I", os.path.join(DEPLOY, "user_cache.py")]
FETCHERS = [os.path.join(ROOT, *path) for path in (("deploy", "fetch-model"), ("deploy", "fetch-xgrammar"), ("tests", "fetch-promtool"),
                                                    ("tests", "gpu", "fetch-flashinfer"))]
NOBODY = 65534
IS_ROOT = os.getuid() == 0


def scripts():
    """Yields the paths of all executable scripts in deploy/, tests/ and docs/."""
    for path in [path for folder in ("deploy", "tests", "docs") for path in glob.glob(os.path.join(ROOT, folder, "**", "*"), recursive=True)]:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            with open(path, "rb") as file:
                if file.read(2) == b"#!":
                    yield path


class Case(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp(prefix="quire-test-")
        self.addCleanup(shutil.rmtree, self.place)

    def run_with(self, command, **environment):
        """Runs a command without this user's home and cache folders (`environment` may give others), and without access to a package
        index or a model hub."""
        env = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME", "QUIRE_CACHE")}
        env.update(environment, PIP_NO_INDEX="1", HF_ENDPOINT="http://127.0.0.1:9", HF_HOME=os.path.join(self.place, "hub"))
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, env=env, cwd=self.place)

    def folder(self, **environment):
        return self.run_with([*CACHE, "folder"], **environment)

    def make(self, *path, mode=0o755, owner=None, text=None):
        full = os.path.join(self.place, *path)
        if text is None:
            os.makedirs(full, exist_ok=True)
        else:
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
        os.chmod(full, mode)
        if owner is not None:
            os.chown(full, owner, owner)
        return full

    def mode(self, path):
        return stat.S_IMODE(os.stat(path).st_mode)


class FolderTest(Case):
    def test_cache_folder_is_private_to_the_user(self):
        home = self.make("home")
        for environment, wanted in (({"HOME": home}, home + "/.cache/quire"),
                                    ({"HOME": home, "XDG_CACHE_HOME": ""}, home + "/.cache/quire"),
                                    ({"HOME": home, "XDG_CACHE_HOME": "relative"}, home + "/.cache/quire"),
                                    ({"HOME": home, "XDG_CACHE_HOME": home + "/xdg"}, home + "/xdg/quire"),
                                    ({"QUIRE_CACHE": home + "/own/cache"}, home + "/own/cache"),
                                    ({"QUIRE_CACHE": "home/relative"}, home + "/relative")):
            made = self.folder(**environment)
            self.assertEqual((made.returncode, made.stdout), (0, wanted + "\n"), made.stderr)
            self.assertEqual(self.mode(wanted), 0o700)
        # An earlier version may have made the folder with the umask that was set then.
        os.chmod(home + "/.cache/quire", 0o755)
        self.assertEqual(self.folder(HOME=home).returncode, 0)
        self.assertEqual(self.mode(home + "/.cache/quire"), 0o700)
        # The mode of a folder that the user names stays, unless others may write to the folder.
        os.chmod(home + "/own/cache", 0o755)
        self.assertEqual(self.folder(QUIRE_CACHE=home + "/own/cache").returncode, 0)
        self.assertEqual(self.mode(home + "/own/cache"), 0o755)

    def test_cache_folder_is_in_the_home_that_passwd_names_when_the_home_variable_is_unset_empty_or_relative(self):
        known = subprocess.run(["getent", "passwd", str(os.getuid())], capture_output=True, text=True).stdout.split(":")[5]
        for home in ({}, {"HOME": ""}, {"HOME": "."}):
            made = self.folder(**home)
            self.assertEqual((made.returncode, made.stdout), (0, os.path.realpath(known) + "/.cache/quire\n"), made.stderr)

    def test_cache_folder_is_refused_when_others_may_write_to_it(self):
        for mode in (0o777, 0o775, 0o757):
            home = self.make("home%o" % mode)
            self.make("home%o" % mode, ".cache", "quire")
            for step in (".cache/quire", ".cache", "."):
                os.chmod(os.path.join(home, step), mode)
                made = self.folder(HOME=home)
                self.assertEqual((made.returncode, made.stdout), (1, ""), step)
                self.assertRegex(made.stderr, "may be written by others; set QUIRE_CACHE")
                made = self.folder(QUIRE_CACHE=home + "/.cache/quire")
                self.assertEqual((made.returncode, made.stdout), (1, ""), step)
                os.chmod(os.path.join(home, step), 0o755)
            self.assertEqual(self.folder(HOME=home).returncode, 0)

    def test_cache_folder_may_be_in_a_shared_folder_with_sticky_bit(self):
        shared = self.make("shared", mode=0o1777)
        self.assertEqual(self.folder(HOME=shared).stdout, shared + "/.cache/quire\n")
        self.assertEqual(self.mode(shared + "/.cache"), 0o700)

    def test_cache_folder_is_refused_when_another_user_owns_it(self):
        if not IS_ROOT:
            made = self.folder(QUIRE_CACHE="/usr")
            self.assertEqual((made.returncode, made.stdout), (1, ""))
            self.assertIn("/usr belongs to root", made.stderr)
            return
        shared = self.make("shared", mode=0o1777)
        for planted in ((".cache",), (".cache", "quire"), ("quire",), ("link",), (".cache-link",)):
            shutil.rmtree(os.path.join(shared, ".cache"), ignore_errors=True)
            self.make("shared", *planted[:-1])
            path = os.path.join(shared, *planted)
            if "link" in planted[-1]:
                os.symlink(self.make("elsewhere", mode=0o700), path)
                os.lchown(path, NOBODY, NOBODY)
                environment = {"QUIRE_CACHE": path} if planted == ("link",) else {"XDG_CACHE_HOME": path}
            else:
                self.make("shared", *planted, owner=NOBODY)
                environment = {"XDG_CACHE_HOME": shared} if planted == ("quire",) else {"HOME": shared}
            made = self.folder(**environment)
            self.assertEqual((made.returncode, made.stdout), (1, ""), planted)
            self.assertIn(f"{path} belongs to nobody", made.stderr)
        self.assertEqual(os.listdir(os.path.join(self.place, "elsewhere")), [])

    def test_cache_folder_may_be_a_link_of_the_user(self):
        far = self.make("far", mode=0o700)
        os.symlink("../far", os.path.join(self.make("home"), ".cache"))
        self.assertEqual(self.folder(HOME=self.place + "/home").stdout, far + "/quire\n")
        os.symlink("ring", os.path.join(self.place, "ring"))
        self.assertIn("too many links", self.folder(QUIRE_CACHE=self.place + "/ring").stderr)


class PlantedTest(Case):
    """Tests that files planted in a cache are not trusted because of their names."""

    def test_scripts_that_cache_files_ask_user_cache_for_the_folder(self):
        for path in scripts():
            with open(path, "rb") as file:
                text = file.read(1 << 20)
            if text.startswith(b"#!") and not path.endswith("user_cache.py"):
                text = re.sub(rb"(?m)^#.*$", b"", text)
                self.assertNotRegex(text, rb"\$\{?(XDG_CACHE_HOME|QUIRE_CACHE)\b|HOME:-/tmp|\$\{?HOME\}?/\.cache|expanduser\(.~/\.cache", path)
        for path in FETCHERS:
            with open(path, encoding="utf-8") as file:
                self.assertRegex(file.read(), r'user_cache(\.py")? folder\)', path)

    def test_scripts_end_when_the_cache_folder_is_refused(self):
        bare = self.make("bare", mode=0o777)
        commands = [[path] for path in FETCHERS] + [[FETCHERS[0], "some-org/some-name"]]
        if shutil.which("promtool"):
            commands.remove([FETCHERS[2]])
        for command in commands:
            refused = self.run_with(command, QUIRE_CACHE=bare)
            self.assertNotEqual(refused.returncode, 0, command)
            self.assertEqual(refused.stdout, "", command)
            self.assertIn(f"{bare} may be written by others", refused.stderr, command)

    def test_cached_sources_are_compared_file_by_file(self):
        real = self.run_with([FETCHERS[1]], **{name: os.environ[name] for name in ("HOME", "XDG_CACHE_HOME", "QUIRE_CACHE") if name in os.environ})
        self.assertEqual(real.returncode, 0, real.stderr)  # this build was configured with these sources
        cache = self.make("cache", mode=0o700)
        sources = os.path.join(cache, os.path.basename(real.stdout.strip()))

        def fetch():
            done = self.run_with([FETCHERS[1]], QUIRE_CACHE=cache)
            return done.returncode, done.stdout

        def intact():
            return self.run_with([*CACHE, "is", sources, os.path.join(DEPLOY, "xgrammar-sources.sha256")]).returncode == 0
        self.make(sources)
        self.make(sources, ".complete", mode=0o644, text="")
        self.assertEqual(fetch(), (1, ""), "an empty folder that says it is complete")
        shutil.rmtree(sources)
        shutil.copytree(real.stdout.strip(), sources)
        self.assertEqual(fetch(), (0, sources + "\n"))
        one = sorted(glob.glob(sources + "/cpp/*.cc"))[0]
        with open(one, encoding="utf-8") as file:
            text = file.read()
        for change in ("changed", "longer", "gone", "more", "renamed", "link"):
            copy = os.path.join(os.path.dirname(one), "more.cc")
            if change in ("gone", "renamed"):
                os.rename(one, copy if change == "renamed" else self.place + "/kept.cc")
            elif change == "more":
                self.make(copy, text="int more;\n")
            elif change == "link":
                os.symlink(one, copy)
            else:
                self.make(one, text=text[:-1] + ("!" if change == "changed" else "!!"))
            self.assertFalse(intact(), change)
            if os.path.lexists(copy):
                os.remove(copy)
            self.make(one, mode=0o644, text=text)
        self.assertEqual(fetch(), (0, sources + "\n"))

    def test_model_fetcher_runs_only_from_pinned_wheels(self):
        cache = self.make("cache", mode=0o700)
        tag = sys.implementation.cache_tag
        proof = os.path.join(self.place, "proof")
        evil = f"open({proof!r}, 'w').write('ran')\n"
        packages = self.make("cache", "hugging-face-" + tag, "packages", "huggingface_hub")
        self.make(packages, "__init__.py", text=evil)
        wheels = self.make("cache", "hugging-face-" + tag, "wheels")
        self.make(wheels, "huggingface_hub-2.4.0-py3-none-any.whl", text="no wheel")
        old = self.make("cache", "hugging-face", "bin")
        self.make(old, "python", text=f"#!/bin/sh\ntouch {proof}\n")
        shutil.copy(os.path.join(DEPLOY, "fetch-requirements.txt"), os.path.join(cache, "hugging-face", "requirements.txt"))
        refused = self.run_with([FETCHERS[0], "some-org/some-name"], QUIRE_CACHE=cache)
        self.assertNotEqual(refused.returncode, 0)
        self.assertFalse(os.path.exists(proof), "planted code ran")

    def test_scripts_run_no_code_from_the_current_folder(self):
        proof = os.path.join(self.place, "proof")
        for name in ("zipfile", "pip", "venv", "ensurepip", "tarfile", "glob", "json", "hashlib", "sitecustomize", "usercustomize", "subprocess"):
            self.make(name + ".py", text=f"open({proof!r}, 'a').write({name!r} + ' ')\n")
        cache = self.make("cache", mode=0o700)
        for command in [[path] for path in FETCHERS] + [[FETCHERS[0], "some-org/some-name"]]:
            self.run_with(command, QUIRE_CACHE=cache)
            self.assertFalse(os.path.exists(proof), command)
        for path in scripts():
            with open(path, encoding="utf-8", errors="replace") as file:
                text = re.sub(r"(?m)^ *#.*$", "", file.read())
            self.assertEqual(re.findall(r"\bpython3? +-(?!I\b)[^\n]*", text), [], path)
            self.assertEqual(re.findall(r'sys\.executable, "-m", "pip[^\n]*', text), [], path)


class AtOnceTest(Case):
    """Tests several first runs that start at the same time."""

    def all_at_once(self, command, **environment):
        """Runs a command in four processes at the same time; returns the set of outputs, and all text of standard error."""
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            runs = list(pool.map(lambda _: self.run_with(command, **environment), range(4)))
        errors = "".join(run.stderr for run in runs)
        self.assertEqual([run.returncode for run in runs], [0] * 4, errors)
        return {run.stdout for run in runs}, errors

    def wheel(self, name, members):
        path = self.make("wheels") + f"/{name}-1-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as file:
            for member, text in {**members, f"{name}-1.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n",
                                 f"{name}-1.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
                                 f"{name}-1.dist-info/RECORD": ""}.items():
                file.writestr(member, text)
        with open(path, "rb") as file:
            return f"{name}==1 --hash=sha256:{hashlib.sha256(file.read()).hexdigest()}\n"

    def test_concurrent_runs_fetch_the_client_once(self):
        shutil.copytree(DEPLOY, os.path.join(self.place, "deploy"))
        self.make("deploy", "fetch-requirements.txt", text=self.wheel("huggingface_hub", {
            "huggingface_hub/__init__.py": "class HfApi:\n    repo_info = None\n\nclass file_download:\n    get_hf_file_metadata = None\n\nhf_hub_download = None\n\ndef list_repo_files(name):\n    return []\n\ndef snapshot_download(name, **_):\n    return 'the model ' + name\n"}))
        said, errors = self.all_at_once([os.path.join(self.place, "deploy", "fetch-model"), "org/name"], QUIRE_CACHE=self.make("cache", mode=0o700),
                                        PIP_FIND_LINKS=os.path.join(self.place, "wheels"))
        self.assertEqual(said, {"the model org/name\n"})
        self.assertEqual(errors.count("fetching the Hugging Face client"), 1, errors)

    def test_concurrent_runs_fetch_the_sources_once(self):
        real = self.run_with([FETCHERS[1]], **{name: os.environ[name] for name in ("HOME", "XDG_CACHE_HOME", "QUIRE_CACHE") if name in os.environ})
        self.assertEqual(real.returncode, 0, real.stderr)
        sources = real.stdout.strip()
        # A fake pip, which packs the sources into the folder into which pip would download them.
        pip = self.make("pip", text=f"""#!/bin/sh
while [ "$1" ]; do
  if [ "$1" = --dest ]; then sleep 0.5; tar -C '{os.path.dirname(sources)}' -czf "$2/{os.path.basename(sources)}.tar.gz" '{os.path.basename(sources)}'; fi
  shift
done
""")
        self.make("bin")
        self.make("bin", "python3", text=f"""#!/bin/sh
case "$*" in
  *'-m venv '*) for target; do :; done; mkdir -p "$target/bin"; cp '{pip}' "$target/bin/pip" ;;
  *) exec '{sys.executable}' "$@" ;;
esac
""")
        cache = self.make("cache", mode=0o700)
        said, errors = self.all_at_once([FETCHERS[1]], QUIRE_CACHE=cache, PATH=os.path.join(self.place, "bin") + ":" + os.environ["PATH"])
        self.assertEqual(said, {os.path.join(cache, os.path.basename(sources)) + "\n"})
        self.assertEqual(errors.count("fetching the sources"), 1, errors)

    def test_fetchers_lock_the_cache_before_they_use_it(self):
        for path in FETCHERS:
            with open(path, encoding="utf-8") as file:
                self.assertRegex(file.read(), r'exec 9> "\$cache/lock" && flock 9[^$]*(?s:.)*\block && ! ', path)


class UnpackedTest(Case):
    """Tests that unpacked files must equal those of the wheels, and the wheels must be the pinned ones."""

    def setUp(self):
        super().setUp()
        self.wheels, self.target = self.make("wheels"), os.path.join(self.place, "target")
        wheel = os.path.join(self.wheels, "a-1-py3-none-any.whl")
        with zipfile.ZipFile(wheel, "w") as file:
            file.writestr("a/__init__.py", "A = 1\n")
            file.writestr("a/b.py", "B = 2\n")
        digest = subprocess.run(["sha256sum", wheel], capture_output=True, text=True, check=True).stdout.split()[0]
        self.list = self.make("list.txt", text=f"a==1 \\\n    --hash=sha256:{digest}\n")

    def same(self):
        return self.run_with([*CACHE, "same", self.wheels, self.list, self.target]).returncode

    def test_changed_unpacked_files_are_noticed(self):
        self.assertEqual(self.same(), 1)
        self.assertEqual(self.run_with([*CACHE, "unpack", self.wheels, self.list, self.target]).returncode, 0)
        self.assertEqual(self.same(), 0)
        for name, text in (("a/b.py", "B = 3\n"), ("a/__pycache__/b.cpython-311.pyc", "code"), ("sitecustomize.py", "pass\n")):
            path = os.path.join(self.target, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self.make(path, text=text)
            self.assertEqual(self.same(), 1, name)
            os.remove(path)
            if name == "a/b.py":
                self.make(path, text="B = 2\n")
        self.assertEqual(self.same(), 0)
        os.remove(os.path.join(self.target, "a", "b.py"))
        self.assertEqual(self.same(), 1)

    def test_wheels_are_not_unpacked_unless_pinned(self):
        self.make("wheels", "b-1-py3-none-any.whl", text="not pinned")
        refused = self.run_with([*CACHE, "unpack", self.wheels, self.list, self.target])
        self.assertEqual(refused.returncode, 1)
        self.assertIn("b-1-py3-none-any.whl: no wheel that", refused.stderr)
        self.assertFalse(os.path.exists(self.target))


if __name__ == "__main__":
    verdict.run_tests()
