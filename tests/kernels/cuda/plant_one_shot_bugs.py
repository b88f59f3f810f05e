#!/usr/bin/env python3
"""Plants bugs in the one-shot all-reduce, each behind a switch, for one_shot_bugs_test.cc, which must find every one.

plant_one_shot_bugs.py SOURCE_ROOT OUTPUT_ROOT: writes OUTPUT_ROOT/kernels/cuda/one_shot_all_reduce.cuh and
OUTPUT_ROOT/one_shot_bugs.h."""
import os
import sys

NAME = "one_shot_all_reduce.cuh"
BARRIER, NO_BARRIER = "simt::SyncThreads();", "if (!@) simt::SyncThreads();"

# (what is wrong, text as it is, text with the bug). @ means "the bug is switched on". Every text occurs once.
BUGS = [
    ("one slot for all operations instead of two", "static_cast<int64_t>(operation_ % 2)",
     "(@ ? 0 : static_cast<int64_t>(operation_ % 2))"),
    ("flags are set before the whole block has sent", f"Send(i, end);\n    {BARRIER}", f"Send(i, end);\n    {NO_BARRIER}"),
    ("waits for the flags of the operation before", "- (operation_ + 1)) >= 0", "- (operation_ + (@ ? 0 : 1))) >= 0"),
    ("operations are compared without wrapping around", "for (uint32_t spins = 1;; ++spins) {",
     "for (uint32_t spins = 1;; ++spins) {\n"
     "      if (@ && simt::LoadAcquireSystem(flags, flag) >= operation_ + 1) return true;"),
    ("only the first warp waits for the flags", f"{BARRIER}\n    return complete[0] != 0;",
     f"{NO_BARRIER}\n    return (@ && simt::ThreadX() >= 32) || complete[0] != 0;"),
    ("every rank begins the sum with its own part", "    float total[kVec];",
     "    if (@) {\n"
     "      const Elements first = parts[0];\n"
     "      parts[0] = parts[g_.rank];\n"
     "      parts[g_.rank] = first;\n"
     "    }\n"
     "    float total[kVec];"),
    ("the own part is not in the sum of the last elements", "T part = in_[i];",
     "T part = in_[i];\n      if (@) part = simt::FromFloat<T>(0.0f);"),
    ("the next row's sums overwrite those that are still read", "simt::SyncThreads();  // warp_sum",
     "if (!@) simt::SyncThreads();  // warp_sum"),
    ("the norm of the sum instead of the new residual", "simt::ToFloat(x.v[e]) * simt::ToFloat(x.v[e])",
     "simt::ToFloat((@ ? dx : x).v[e]) * simt::ToFloat(x.v[e])"),
]


def main():
    source_root, output_root = sys.argv[1:]
    folder = os.path.join(output_root, "kernels", "cuda")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(source_root, "kernels", "cuda", NAME), encoding="utf-8") as f:
        text = f.read()
    for number, (what, original, planted) in enumerate(BUGS, 1):
        if text.count(original) != 1:
            sys.exit(f"plant_one_shot_bugs.py: '{what}': its text is there {text.count(original)} times; move it along")
        text = text.replace(original, planted.replace("@", f"(simt::ActiveBug() == {number})"))
    with open(os.path.join(folder, NAME), "w", encoding="utf-8") as f:
        f.write(text.replace("#pragma once", '#pragma once\n\n#include "simt/active_bug.h"', 1))
    with open(os.path.join(output_root, "one_shot_bugs.h"), "w", encoding="utf-8") as f:
        f.write("#pragma once\n\ninline constexpr const char* kPlantedBugs[] = {\n")
        f.write("".join(f'    "{what}",\n' for what, *_ in BUGS) + "};\n")


main()
