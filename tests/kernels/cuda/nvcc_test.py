#!/usr/bin/env python3
"""Tests that every CUDA source compiles for every promised architecture without warnings (to PTX, with warnings as errors), and so does
host code that CMake compiles only with a toolkit and NCCL. An accepted source is compiled again only when its code, an included file,
the command or the compiler has changed (green_sources.py). `nvcc_test.py --record` writes nvcc_green.txt, the list of accepted sources
for clean checkouts. The test is skipped without nvcc on the PATH."""
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import verdict  # noqa: E402
from green_sources import GreenSources  # noqa: E402
HERE = os.path.dirname(os.path.abspath(__file__))
OLDEST = ["80", "89", "90a"]
# This source needs the headers that tests/gpu/fetch-flashinfer fetches.
WITH_FLASHINFER = os.path.join("worker", "cuda", "bench", "flashinfer.cu")


def architectures(nvcc):
    version = re.search(r"release (\d+)\.(\d+)", subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout)
    return OLDEST + (["100", "120"] if (int(version[1]), int(version[2])) >= (12, 8) else [])


def version_of(compiler):
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout


def device_words(targets):
    codes = [f"-gencode=arch=compute_{a},code=compute_{a}" for a in targets]
    return ["-std=c++20", "-I.", "-Ikernels/cuda", "-DQUIRE_HAS_SM90A", "-Xcompiler=-Wall", "-Werror=all-warnings", *codes, "-fatbin"]


def device_work(nvcc, source, words, version):
    return ([nvcc, *words, source, "-o", os.devnull], [words, version], source)


def flashinfer_work(nvcc, version):
    """Returns the work for the source with FlashInfer's headers; None if they were not fetched. The key contains the list of their
    checksums."""
    cached = subprocess.run([os.path.join(ROOT, "tests", "gpu", "fetch-flashinfer"), "--cached"], capture_output=True, text=True)
    if cached.returncode != 0:
        print(f"{WITH_FLASHINFER} is left out: {cached.stderr.strip()}")
        return None
    words = ["-std=c++20", "-I.", "-Ikernels/cuda", "--disable-warnings", "-gencode=arch=compute_90a,code=compute_90a", "-fatbin"]
    with open(os.path.join(ROOT, "tests", "gpu", "flashinfer-headers.sha256"), encoding="utf-8") as f:
        return ([nvcc, *words, "-isystem", cached.stdout.strip(), WITH_FLASHINFER, "-o", os.devnull], [words, version, f.read()], WITH_FLASHINFER)


def host_sources():
    """Returns the files that a build without CUDA leaves out or runs in an emulator only."""
    folders = ("worker/cuda/**/*.cc", "worker/serve/*_with_cuda.cc", "worker/bench/*_cuda.cc", "comm/collective/nccl*.cc",
               "comm/collective/cuda*.cc")
    return [os.path.relpath(p, ROOT) for pattern in folders for p in sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True))]


def host_works(nvcc, version):
    """Returns the work for host sources; none if the toolkit has no NCCL."""
    include = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))), "include")
    if not os.path.exists(os.path.join(include, "nccl.h")):
        return []
    words = ["-std=c++20", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror", "-fsyntax-only", "-I."]
    key = [words, version_of("g++"), version]
    return [(["g++", *words, "-isystem", include, source], key, source) for source in host_sources()]


def main():
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        verdict.skip_all("no nvcc in PATH")
    sources = [os.path.relpath(p, ROOT) for folder in ("kernels/cuda", "worker/cuda/bench")
               for p in sorted(glob.glob(os.path.join(ROOT, folder, "**", "*.cu"), recursive=True))]
    sources.remove(WITH_FLASHINFER)
    targets, version = architectures(nvcc), version_of(nvcc)
    work = host_works(nvcc, version)
    work += [device_work(nvcc, source, device_words(targets), version) for source in sources]
    work += filter(None, [flashinfer_work(nvcc, version)])
    folder = subprocess.run([os.path.join(ROOT, "deploy", "user_cache.py"), "folder"], capture_output=True, text=True, check=True).stdout.strip()
    green = GreenSources(ROOT, (".", "kernels/cuda"), os.path.join(HERE, "nvcc_green.txt"), os.path.join(folder, "nvcc_green.txt"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = [e for e in pool.map(lambda one: green.compile(*one), work) if e]
    green.save(record="--record" in sys.argv[1:])
    print("\n".join(errors) or f"{len(sources)} sources for {', '.join('sm_' + a for a in targets)}, {len(host_sources())} for the host; "
          f"{green.skipped} of them had not changed since they were accepted")
    sys.exit(1 if errors or len(sources) < 10 or len(host_sources()) < 40 else 0)


main()
