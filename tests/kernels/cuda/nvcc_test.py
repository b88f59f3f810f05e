#!/usr/bin/env python3
"""Tests that every CUDA source compiles for every promised architecture without warnings (to PTX, with warnings as errors), and so does
host code that CMake compiles only with a toolkit and NCCL. An accepted source is compiled again only when its code, an included file,
the command or the compiler has changed (green_sources.py). nvcc then leaves out most of its optimisation. The optimisation takes nine
tenths of nvcc's time and refuses only loops that it cannot unroll. With --optimised nvcc compiles as for a GPU. --record writes
nvcc_green.txt, the list of accepted sources for clean checkouts. The test is skipped without nvcc on the PATH."""
import argparse
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


def quick_words(nvcc):
    """Returns the words that make nvcc leave out optimisation: none for toolkits before CUDA 12.9, which lack the option."""
    return ["-Ofc=max"] if "--Ofast-compile" in subprocess.run([nvcc, "--help"], capture_output=True, text=True).stdout else []


def device_work(nvcc, source, words, quick, version, others=(), more=()):
    """Returns arguments of GreenSources.compile for one source. `others` are words that name folders of this machine and are no part of
    the key; `more` has further parts of the key."""
    return ([nvcc, *quick, *words, *others, source, "-o", os.devnull], [quick + words, version, *more], source,
            [[words, version, *more]])


def flashinfer_work(nvcc, quick, version):
    """Returns arguments of GreenSources.compile for the source with FlashInfer's headers; None if the headers were not fetched. The key
    contains the list of their checksums."""
    cached = subprocess.run([os.path.join(ROOT, "tests", "gpu", "fetch-flashinfer"), "--cached"], capture_output=True, text=True)
    if cached.returncode != 0:
        print(f"{WITH_FLASHINFER} is left out: {cached.stderr.strip()}")
        return None
    words = ["-std=c++20", "-I.", "-Ikernels/cuda", "--disable-warnings", "-gencode=arch=compute_90a,code=compute_90a", "-fatbin"]
    with open(os.path.join(ROOT, "tests", "gpu", "flashinfer-headers.sha256"), encoding="utf-8") as f:
        return device_work(nvcc, WITH_FLASHINFER, words, quick, version, ["-isystem", cached.stdout.strip()], [f.read()])


def host_sources():
    """Returns the files that a build without CUDA leaves out or runs in an emulator only."""
    folders = ("worker/cuda/**/*.cc", "worker/serve/*_with_cuda.cc", "worker/bench/*_cuda.cc", "comm/collective/nccl*.cc",
               "comm/collective/cuda*.cc")
    return [os.path.relpath(p, ROOT) for pattern in folders for p in sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True))]


def host_works(nvcc, version):
    """Returns arguments of GreenSources.compile for each host source; none if the toolkit has no NCCL."""
    include = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))), "include")
    if not os.path.exists(os.path.join(include, "nccl.h")):
        return []
    words = ["-std=c++20", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror", "-fsyntax-only", "-I."]
    key = [words, version_of("g++"), version]
    return [(["g++", *words, "-isystem", include, source], key, source) for source in host_sources()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--optimised", action="store_true")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        verdict.skip_all("no nvcc in PATH")
    sources = [os.path.relpath(p, ROOT) for folder in ("kernels/cuda", "worker/cuda/bench")
               for p in sorted(glob.glob(os.path.join(ROOT, folder, "**", "*.cu"), recursive=True))]
    sources.remove(WITH_FLASHINFER)
    targets, version = architectures(nvcc), version_of(nvcc)
    quick = [] if options.optimised else quick_words(nvcc)
    # The slowest sources come first, so that no core is idle at the end.
    work = [device_work(nvcc, source, device_words(targets), quick, version)
            for source in sorted(sources, key=lambda name: "paged" not in name and "prefill" not in name)]
    work += host_works(nvcc, version)
    work += filter(None, [flashinfer_work(nvcc, quick, version)])
    folder = subprocess.run([os.path.join(ROOT, "deploy", "user_cache.py"), "folder"], capture_output=True, text=True, check=True).stdout.strip()
    green = GreenSources(ROOT, (".", "kernels/cuda"), os.path.join(HERE, "nvcc_green.txt"), os.path.join(folder, "nvcc_green.txt"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = [e for e in pool.map(lambda one: green.compile(*one), work) if e]
    green.save(record=options.record)
    print("\n".join(errors) or f"{len(sources)} sources for {', '.join('sm_' + a for a in targets)}, {len(host_sources())} for the host; "
          f"{green.skipped} of them had not changed since they were accepted")
    sys.exit(1 if errors or len(sources) < 10 or len(host_sources()) < 40 else 0)


main()
