"""Tests that sizes of memory, threads and file descriptors follow the machine and its control groups, in the same way in serve, plan and
check. The groups are real, of v1 or v2, and made for each test."""
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import unittest

import verdict
from server import QUIRE, TINY, Server

MIB, GIB = 1 << 20, 1 << 30
BASE = ("--model", TINY, "-tp", "2")
PORTS = ("--port", "0", "--admin-port", "0")


def run(command, *flags, prefix=()):
    ports = () if command == "plan" else PORTS
    return subprocess.run([*prefix, QUIRE, command, *BASE, *ports, *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)


def total_memory():
    with open("/proc/meminfo", encoding="utf-8") as f:
        return int(f.readline().split()[1]) * 1024


def memory_nodes():
    with open("/sys/devices/system/node/online", encoding="utf-8") as f:
        return f.read().strip()


# The name of each controller's limit in each hierarchy, and how the limit is written. A limit of cpuset is a list of
# processors. A group of v1 below another one has its processors only if they are copied into it.
V1 = {"cpuset": lambda limit: {"cgroup.clone_children": "1", "cpuset.cpus": limit, "cpuset.mems": memory_nodes()},
      "memory": lambda limit: {"memory.limit_in_bytes": str(limit)},
      "cpu": lambda limit: {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": str(int(limit * 100000))}}
V2 = {"cpuset": lambda limit: {"cpuset.cpus": limit},
      "memory": lambda limit: {"memory.max": str(limit)}, "cpu": lambda limit: {"cpu.max": f"{int(limit * 100000)} 100000"}}


def hierarchy(controller):
    """Returns (folder of the root group, files), or None if groups of that controller cannot be made here. files(limit) returns {name:
    text} of the files that set this limit."""
    v1 = f"/sys/fs/cgroup/{controller}"
    if os.path.isdir(v1) and os.access(v1, os.W_OK):
        return v1, V1[controller]
    v2 = "/sys/fs/cgroup"
    with contextlib.suppress(OSError), open(f"{v2}/cgroup.subtree_control", encoding="utf-8") as f:
        if controller in f.read().split() and os.access(v2, os.W_OK):
            return v2, V2[controller]
    return None


def unavailable(controller):
    return "" if os.geteuid() == 0 and hierarchy(controller) else f"no control groups of {controller} can be made here"


@contextlib.contextmanager
def group(controller, limit, nested=False):
    """Yields words that, put before a command, run the command in a new group with this limit. nested: in a group without a limit, below
    the group that has the limit."""
    root, files = hierarchy(controller)
    outer = inner = os.path.join(root, f"quire-test-{os.getpid()}-{time.monotonic_ns()}")
    os.mkdir(outer)
    try:
        for name, text in files(limit).items():
            with open(os.path.join(outer, name), "w", encoding="utf-8") as f:
                f.write(text)
        if nested:
            inner = os.path.join(outer, "below.slice")
            os.mkdir(inner)
        yield ("sh", "-c", f'echo $$ > {inner}/cgroup.procs && exec "$@"', "sh")
    finally:
        deadline = time.monotonic() + 20
        for path in dict.fromkeys((inner, outer)):
            while os.path.isdir(path):
                with contextlib.suppress(OSError):  # the last process is ending
                    os.rmdir(path)
                if time.monotonic() > deadline:
                    raise AssertionError(f"{path} is still in use")
                time.sleep(0.05)


class SizesTest(unittest.TestCase):
    def assert_refused(self, flags, flag, prefix=(), limit="the machine allows"):
        """Expects that plan, check and serve refuse these flags for the same problem. The message must name `limit` and advise to lower
        `flag`."""
        done = run("plan", "--no-speed", *flags, prefix=prefix)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        problem, = (line.removeprefix("does not fit: ") for line in done.stdout.splitlines() if line.startswith("does not fit: "))
        self.assertRegex(problem, rf"2 workers on .* would take .*{limit} .* in all; lower {flag}$")
        done = run("check", "--json", *flags, prefix=prefix)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        failed = {line["check"]: line["found"] for line in json.loads(done.stdout)["checks"] if line["status"] == "FAILED"}
        self.assertEqual(failed, {"sizes": problem})
        done = run("serve", *flags, prefix=prefix)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn(problem, done.stdout + done.stderr)
        self.assertNotIn("ready after", done.stdout + done.stderr)

    def test_sizes_beyond_the_machine_are_refused_by_serve_plan_and_check(self):
        blocks = ("--num-kv-blocks", str(2**31 - 2), "--block-size", "256")
        for flags, flag in ((("--kv-cache-memory-bytes", "200000GiB"), "--kv-cache-memory-bytes"), (("--swap-space", "50000"), "--swap-space"),
                            (blocks, "--num-kv-blocks"), (("--set", "cache.host_swap=9TiB"), "--swap-space"),
                            (("--kv-cache-memory-bytes", str(total_memory() // 3), "--swap-space", f"{total_memory() // 3 // MIB}MiB"),
                             "--kv-cache-memory-bytes and --swap-space")):
            with self.subTest(flags=flags):
                self.assert_refused(flags, flag)

    @staticmethod
    @contextlib.contextmanager
    def two_models(memory):
        """Yields the path of a topology file with two models. The models are loaded on request, and may take `memory` bytes together."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            json.dump({"models": [{"name": name, "path": TINY, "load": "request"} for name in ("a", "b")], "models_memory": str(memory)}, file)
            file.flush()
            yield file.name

    def outcomes_of_models(self, memory, prefix=()):
        """Returns status and output of each command for two models that may take `memory` bytes together."""
        with self.two_models(memory) as file:
            words = {"plan": ("--no-speed",), "check": PORTS, "serve": PORTS}
            done = {command: subprocess.run([*prefix, QUIRE, command, file, *more], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
                    for command, more in words.items()}
        return {command: (one.returncode, one.stdout + one.stderr) for command, one in done.items()}

    def assert_models_refused(self, memory, limit, prefix=()):
        for command, (status, text) in self.outcomes_of_models(memory, prefix).items():
            self.assertEqual(status, 2 if command == "serve" else 1, text)
            self.assertRegex(text, rf"models_memory lets all models take .*{limit} allows .* in all; lower --models-memory")

    def test_memory_of_all_models_beyond_the_machine_is_refused_by_serve_plan_and_check(self):
        self.assert_models_refused("200000GiB", "the machine")

    def test_serve_plan_and_check_warn_alike_of_memory_of_all_models_beyond_the_free_memory(self):
        with self.two_models(total_memory()) as file:
            for command, more in (("plan", ("--no-speed",)), ("check", PORTS)):
                done = subprocess.run([QUIRE, command, file, *more], capture_output=True, text=True, timeout=120)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertRegex(done.stdout, "warning.* models_memory lets all models take .* free now")
            with Server(file, model=None) as server:
                self.assertRegex(server.text(), "warning.* models_memory lets all models take .* free now")

    def test_serve_plan_and_check_warn_alike_of_sizes_beyond_the_free_memory(self):
        """Two workers with half of the memory each fit into the machine, but never into its free memory."""
        half = ("--kv-cache-memory-bytes", str(total_memory() // 2 - 40 * MIB))
        said = json.loads(run("plan", "--no-speed", "--json", *half).stdout)
        self.assertTrue(said["fits"], said)
        self.assertRegex(" ".join(said["warnings"]), "2 workers on .* may take .* free there now")
        done = run("check", *half)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, "warning sizes .* may take ")
        with Server("-tp", "2", *half, model=TINY) as server:
            self.assertRegex(server.text(), "warning.* may take ")

    def test_plan_and_check_warn_alike_of_adapters_and_files_beyond_the_machine(self):
        with tempfile.TemporaryDirectory() as folder:
            disk, batches = os.path.join(folder, "kv"), os.path.join(folder, "batches")
            for flags, told in ((("--lora-dir", folder, "--lora-memory", "200000GiB"), "adapters may hold .*--lora-memory"),
                                (("--kv-disk", disk, "--kv-disk-size", "2000000GiB"), "kv may take .*--kv-disk-size.* room for"),
                                (("--batch-dir", batches, "--batch-max-bytes", "2000000GiB"), "batches may take .*--batch-max-bytes.* room for")):
                with self.subTest(flags=flags):
                    said = json.loads(run("plan", "--no-speed", "--json", *flags).stdout)
                    self.assertRegex(" ".join(said["warnings"]), told)
                    self.assertRegex(run("check", *flags).stdout, f"warning sizes .*{told}")

    def test_serve_refuses_adapters_that_leave_nothing_to_the_kv_cache_with_status_2(self):
        with tempfile.TemporaryDirectory() as folder:
            flags = ("--lora-dir", folder, "--lora-memory", "200000GiB")
            done = run("serve", *flags)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertRegex(done.stdout + done.stderr, "the KV cache needs at least .*; lower --lora-memory, free memory")

    def test_server_and_check_warn_of_too_few_file_descriptors(self):
        few = ("prlimit", "--nofile=1000:1000")
        done = run("check", prefix=few)
        self.assertEqual(done.returncode, 0, done.stdout)
        told = r"may open 1000 file descriptors, enough for 488 connections at once instead of 16384 .*LimitNOFILE"
        self.assertRegex(done.stdout, "warning files .*" + told)
        with Server("-tp", "1", model=TINY, prefix=few) as server:
            self.assertRegex(server.text(), told)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard >= 20000:
            self.assertRegex(run("check").stdout, "ok +files +this host +descriptors for 16384 connections")

    @unittest.skipIf(unavailable("memory"), unavailable("memory"))
    def test_limits_of_a_control_group_count_as_those_of_the_machine(self):
        for nested in (False, True):
            with self.subTest(nested=nested), group("memory", 2 * GIB, nested) as inside:
                self.assert_refused(("--kv-cache-memory-bytes", "3GiB"), "--kv-cache-memory-bytes", inside, r"control group /quire-test-\S+ \(\S+\) allows")
                self.assert_refused(("--swap-space", "2"), "--swap-space", inside, r"control group /quire-test-\S+ \(\S+\) allows")
                self.assert_models_refused("3GiB", r"control group /quire-test-\S+ \(\S+\)", inside)

    @unittest.skipIf(unavailable("memory"), unavailable("memory"))
    def test_automatic_sizes_stay_within_the_limits_of_the_control_group(self):
        flags = ("--max-num-seqs", "4096")  # this many sequences can use all of the memory
        whole = json.loads(run("plan", "--no-speed", "--json", *flags).stdout)["ranks"][0]["kv_bytes"]
        for nested in (False, True):
            with self.subTest(nested=nested), group("memory", 400 * MIB, nested) as inside:
                said = json.loads(run("plan", "--no-speed", "--json", *flags, prefix=inside).stdout)
                kv = sum(rank["kv_bytes"] for rank in said["ranks"])
                self.assertLess(kv, 400 * MIB)
                self.assertGreater(kv, 100 * MIB)
                self.assertLess(said["ranks"][0]["kv_bytes"], whole)
                with Server("-tp", "2", *flags, model=TINY, prefix=inside) as server:
                    blocks = server.get("/admin/block_map", admin=True)["total"]
                    self.assertLess(blocks * sum(rank["kv_bytes_per_block"] for rank in server.get("/admin/status", admin=True)["ranks"]), 400 * MIB)


class ThreadsTest(unittest.TestCase):
    @staticmethod
    def threads(*flags, prefix=()):
        """Returns the number of threads of rank 0's program: compute threads and a few others."""
        with Server("-tp", "1", *flags, model=TINY, prefix=prefix) as server:
            return len(os.listdir(f"/proc/{server.worker_pids()[0]}/task"))

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one processor")
    def test_worker_threads_follow_cpu_affinity(self):
        one = str(min(os.sched_getaffinity(0)))
        self.assertEqual(self.threads(prefix=("taskset", "-c", one)), self.threads("--threads-per-worker", "1"))
        self.assertEqual(self.threads(), self.threads("--threads-per-worker", str(len(os.sched_getaffinity(0)))))

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one processor")
    @unittest.skipIf(unavailable("cpuset"), unavailable("cpuset"))
    def test_worker_threads_follow_cpusets_of_control_groups(self):
        one = str(min(os.sched_getaffinity(0)))
        for nested in (False, True):
            with self.subTest(nested=nested), group("cpuset", one, nested) as inside:
                self.assertEqual(self.threads(prefix=inside), self.threads("--threads-per-worker", "1"))
                done = run("plan", "--no-speed", "--json", "--threads-per-worker", "4", prefix=inside)
                self.assertRegex(" ".join(json.loads(done.stdout)["warnings"]), "compute with 8 threads, and may use 1 processors")

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one processor")
    @unittest.skipIf(unavailable("cpu"), unavailable("cpu"))
    def test_worker_threads_follow_cpu_quotas_of_control_groups(self):
        for nested in (False, True):
            with self.subTest(nested=nested), group("cpu", 1.5, nested) as inside:
                self.assertEqual(self.threads(prefix=inside), self.threads("--threads-per-worker", "1"))
                done = run("plan", "--no-speed", "--json", "--threads-per-worker", "4", prefix=inside)
                self.assertRegex(" ".join(json.loads(done.stdout)["warnings"]), "compute with 8 threads, and may use 1 processors")


if __name__ == "__main__":
    if sys.platform != "linux":
        verdict.skip_all("not Linux")
    verdict.run_tests()
