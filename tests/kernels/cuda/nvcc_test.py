#!/usr/bin/env python3
"""Every CUDA source compiles for every architecture that is promised, without warnings: nvcc's front end, to PTX, with
warnings as errors; and so does what CMake compiles for the host where there is a toolkit with NCCL. A source that did well is compiled again when a
file that the compiler read has changed (green_sources.py). Without nvcc (PATH) it says so and is skipped."""
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
OLDEST = ["80", "89", "90a"]
# Takes headers that tests/gpu/fetch-flashinfer has fetched, or has not.
WITH_FLASHINFER = os.path.join("worker", "cuda", "bench", "flashinfer.cu")


def architectures(nvcc):
    version = re.search(r"release (\d+)\.(\d+)", subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout)
    return OLDEST + (["100", "120"] if (int(version[1]), int(version[2])) >= (12, 8) else [])


def version_of(compiler):
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout


def device_command(nvcc, source, targets):
    codes = [f"-gencode=arch=compute_{a},code=compute_{a}" for a in targets]
    return [nvcc, "-std=c++20", "-I.", "-Ikernels/cuda", "-DQUIRE_HAS_SM90A", "-Xcompiler=-Wall", "-Werror=all-warnings", *codes, "-fatbin",
            source, "-o", os.devnull]


def flashinfer_command(nvcc):
    """None where FlashInfer's headers were not fetched."""
    cached = subprocess.run([os.path.join(ROOT, "tests", "gpu", "fetch-flashinfer"), "--cached"], capture_output=True, text=True)
    if cached.returncode != 0:
        print(f"{WITH_FLASHINFER} is left out: {cached.stderr.strip()}")
        return None
    return [nvcc, "-std=c++20", "-I.", "-Ikernels/cuda", "-isystem", cached.stdout.strip(), "--disable-warnings",
            "-gencode=arch=compute_90a,code=compute_90a", "-fatbin", WITH_FLASHINFER, "-o", os.devnull]


def host_sources():
    """What a build without CUDA leaves out, or sees through an emulator only."""
    folders = ("worker/cuda/*.cc", "worker/cuda/bench/*.cc", "worker/serve/*_with_cuda.cc", "worker/bench/*_cuda.cc", "comm/collective/nccl*.cc",
               "comm/collective/cuda*.cc")
    return [os.path.relpath(p, ROOT) for pattern in folders for p in sorted(glob.glob(os.path.join(ROOT, pattern)))]


def host_command(nvcc, source):
    """None where the toolkit has no NCCL."""
    include = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))), "include")
    if not os.path.exists(os.path.join(include, "nccl.h")):
        return None
    return ["g++", "-std=c++20", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror", "-fsyntax-only", "-I.", "-isystem", include,
            source]


def main():
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        verdict.skip_all("no nvcc in PATH")
    sources = [os.path.relpath(p, ROOT) for folder in ("kernels/cuda", "worker/cuda/bench")
               for p in sorted(glob.glob(os.path.join(ROOT, folder, "**", "*.cu"), recursive=True))]
    sources.remove(WITH_FLASHINFER)
    targets = architectures(nvcc)
    work = [(host_command(nvcc, source), version_of("g++"), source) for source in host_sources()]
    work += [(device_command(nvcc, source, targets), version_of(nvcc), source) for source in sources]
    work.append((flashinfer_command(nvcc), version_of(nvcc), WITH_FLASHINFER))
    green = GreenSources(ROOT)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = [e for e in pool.map(lambda one: green.compile(*one), [one for one in work if one[0] is not None]) if e]
    green.save()
    print("\n".join(errors) or f"{len(sources)} sources for {', '.join('sm_' + a for a in targets)}, {len(host_sources())} for the host; "
          f"{green.skipped} of them had not changed since they did well")
    sys.exit(1 if errors or len(sources) < 10 or len(host_sources()) < 20 else 0)


main()
