#!/usr/bin/env python3
"""Lists bugs to plant in the one-shot all-reduce; one_shot_bugs_test.cc must find every one. planting.py describes how to run this."""
from planting import BARRIER, NO_BARRIER, plant

NAME = "collective/one_shot_all_reduce.cuh"

BUGS = [
    ("one slot for all operations instead of two", NAME, "static_cast<int64_t>(operation_ % 2)",
     "(@ ? 0 : static_cast<int64_t>(operation_ % 2))"),
    ("flags are set before the whole block has sent", NAME, f"Send(i, end);\n    {BARRIER}", f"Send(i, end);\n    {NO_BARRIER}"),
    ("waits for the flags of the operation before", NAME, "- (operation_ + 1)) >= 0", "- (operation_ + (@ ? 0 : 1))) >= 0"),
    ("operations are compared without wrapping around", NAME, "for (uint32_t spins = 1;; ++spins) {",
     "for (uint32_t spins = 1;; ++spins) {\n"
     "      if (@ && simt::LoadAcquireSystem(flags, flag) >= operation_ + 1) return true;"),
    ("only the first warp waits for the flags", NAME, f"{BARRIER}\n    return complete[0] != 0;",
     f"{NO_BARRIER}\n    return (@ && simt::ThreadX() >= 32) || complete[0] != 0;"),
    ("every rank begins the sum with its own part", NAME, "    float total[kVec];",
     "    if (@) {\n"
     "      const Elements first = parts[0];\n"
     "      parts[0] = parts[g_.rank];\n"
     "      parts[g_.rank] = first;\n"
     "    }\n"
     "    float total[kVec];"),
    ("the own part is not in the sum of the last elements", NAME, "T part = in_[i];",
     "T part = in_[i];\n      if (@) part = simt::FromFloat<T>(0.0f);"),
    ("the next row's sums overwrite those that are still read", NAME, "simt::SyncThreads();  // before warp_sum",
     "if (!@) simt::SyncThreads();  // before warp_sum"),
    ("the norm of the sum instead of the new residual", NAME, "simt::ToFloat(x.v[e]) * simt::ToFloat(x.v[e])",
     "simt::ToFloat((@ ? dx : x).v[e]) * simt::ToFloat(x.v[e])"),
]

plant(BUGS)
