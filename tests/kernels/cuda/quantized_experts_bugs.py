#!/usr/bin/env python3
"""Lists bugs to plant in products of experts with quantised weights; quantized_experts_bugs_test.cc must find every one. planting.py
describes how to run this."""
from planting import BARRIER, NO_BARRIER, plant

EXPERTS = "experts/quantized_expert_matmul.cuh"

BUGS = [
    ("rows are read before they are grouped", EXPERTS, "simt::WaitForPrerequisites();", "if (!@) simt::WaitForPrerequisites();"),
    ("every expert has the first one's weight", EXPERTS, "expert * p.expert_bytes", "(@ ? 0 : expert) * p.expert_bytes"),
    ("no barrier before sums are written over those of the batch before", EXPERTS, f"if (row > begin) {BARRIER}",
     f"if (row > begin) {{ {NO_BARRIER} }}"),
    ("a batch goes beyond the expert's rows", EXPERTS, "simt::Min(end - row, int64_t{kBatch})",
     "simt::Min((@ ? p.num_rows : end) - row, int64_t{kBatch})"),
    ("rows are those of x where they are gathered", EXPERTS, "InputRow(p, row + mine) * p.k", "(@ ? row + mine : InputRow(p, row + mine)) * p.k"),
    ("rows past the batch are multiplied", EXPERTS, "mine < count, mine < count", "(@ || mine < count), (@ || mine < count)"),
    ("only the first batch is multiplied", EXPERTS, "row += kBatch", "row += (@ ? p.num_rows : kBatch)"),
    ("biases are the first expert's", EXPERTS, "bias[expert * p.n + column]", "bias[(@ ? 0 : expert) * p.n + column]"),
    ("biases are left out", EXPERTS, "sum += simt::ToFloat(more);", "sum += @ ? 0.0f : simt::ToFloat(more);"),
    ("rows of y begin with the batch's", EXPERTS, "y[(row + mine) * p.n + column]", "y[((@ ? begin : row) + mine) * p.n + column]"),
]

plant(BUGS)
