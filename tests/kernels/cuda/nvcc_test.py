#!/usr/bin/env python3
"""Every CUDA source compiles for every architecture that is promised, without warnings: nvcc's front end, to PTX, with
warnings as errors; and so does what CMake compiles for the host where there is a toolkit with NCCL. Without nvcc (PATH) it says so
and is skipped."""
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
OLDEST = ["80", "89", "90a"]
# Takes headers that tests/gpu/fetch-flashinfer has fetched, or has not.
WITH_FLASHINFER = os.path.join("worker", "cuda", "bench", "flashinfer.cu")


def architectures(nvcc):
    version = re.search(r"release (\d+)\.(\d+)", subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout)
    return OLDEST + (["100", "120"] if (int(version[1]), int(version[2])) >= (12, 8) else [])


def errors_of(command, source):
    """What a compiler has against a source; nothing if all is well."""
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return "" if result.returncode == 0 else f"{source}:\n{result.stdout}{result.stderr}"


def compile_errors(nvcc, source, targets):
    codes = [f"-gencode=arch=compute_{a},code=compute_{a}" for a in targets]
    return errors_of([nvcc, "-std=c++20", "-I.", "-Ikernels/cuda", "-DQUIRE_HAS_SM90A", "-Xcompiler=-Wall", "-Werror=all-warnings", *codes, "-fatbin",
                      source, "-o", os.devnull], source)


def flashinfer_errors(nvcc):
    cached = subprocess.run([os.path.join(ROOT, "tests", "gpu", "fetch-flashinfer"), "--cached"], capture_output=True, text=True)
    if cached.returncode != 0:
        print(f"{WITH_FLASHINFER} is left out: {cached.stderr.strip()}")
        return ""
    return errors_of([nvcc, "-std=c++20", "-I.", "-Ikernels/cuda", "-isystem", cached.stdout.strip(), "--disable-warnings",
                      "-gencode=arch=compute_90a,code=compute_90a", "-fatbin", WITH_FLASHINFER, "-o", os.devnull], WITH_FLASHINFER)


def host_sources():
    """What a build without CUDA leaves out, or sees through an emulator only."""
    folders = ("worker/cuda/*.cc", "worker/cuda/bench/*.cc", "worker/serve/*_with_cuda.cc", "worker/bench/*_cuda.cc", "comm/collective/nccl*.cc",
               "comm/collective/cuda*.cc")
    return [os.path.relpath(p, ROOT) for pattern in folders for p in sorted(glob.glob(os.path.join(ROOT, pattern)))]


def host_errors(nvcc, source):
    include = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))), "include")
    if not os.path.exists(os.path.join(include, "nccl.h")):
        return ""
    return errors_of(["g++", "-std=c++20", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror", "-fsyntax-only", "-I.",
                      "-isystem", include, source], source)


def main():
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        verdict.skip_all("no nvcc in PATH")
    sources = [os.path.relpath(p, ROOT) for folder in ("kernels/cuda", "worker/cuda/bench")
               for p in sorted(glob.glob(os.path.join(ROOT, folder, "**", "*.cu"), recursive=True))]
    sources.remove(WITH_FLASHINFER)
    targets = architectures(nvcc)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = [e for e in pool.map(lambda s: host_errors(nvcc, s), host_sources()) if e]
        errors += [e for e in pool.map(lambda s: compile_errors(nvcc, s, targets), sources) if e]
    errors += filter(None, [flashinfer_errors(nvcc)])
    print("\n".join(errors) or f"{len(sources)} sources for {', '.join('sm_' + a for a in targets)}, {len(host_sources())} for the host")
    sys.exit(1 if errors or len(sources) < 10 or len(host_sources()) < 20 else 0)


main()
