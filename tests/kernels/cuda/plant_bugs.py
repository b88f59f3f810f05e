#!/usr/bin/env python3
"""Lists bugs to plant in the baseline decode kernels; planted_bugs_test.cc must find every one. planting.py describes how to run this."""
from planting import BARRIER, NO_BARRIER, plant

DECODE, REDUCE, LAUNCH = "paged/paged_decode.cuh", "reduce.cuh", "paged/paged_decode_launch.cuh"

# (description of the bug, file, present text, text with the bug). @ means "the bug is switched on". Every text occurs once.
BUGS = [
    ("no barrier between loading the query and using it", DECODE,
     f"{BARRIER}\n\n    const float max", f"{NO_BARRIER}\n\n    const float max"),
    ("no barrier before the warps' sums are added", DECODE,
     f"{BARRIER}\n    const float factor", f"{NO_BARRIER}\n    const float factor"),
    ("no barrier between a reduction's two levels", REDUCE, BARRIER, NO_BARRIER),
    ("both reductions share one buffer", DECODE,
     "BlockReduce<kWarps>(sum, warp_sum, SumOf{});\n\n    WeightedSum",
     "BlockReduce<kWarps>(sum, @ ? warp_max : warp_sum, SumOf{});\n\n    WeightedSum"),
    ("one warp has a barrier of its own", DECODE,
     "    WeightedSum(p.op, range, scores, sums);",
     "    WeightedSum(p.op, range, scores, sums);\n    if (@ && thread / 32 == 2) simt::SyncThreads();"),
    ("one lane skips the shuffles", DECODE,
     "score += simt::ShuffleXor(score, mask);",
     "if (!@ || lane != 7) score += simt::ShuffleXor(score, mask);"),
    ("values that do not count are multiplied by 0", DECODE,
     "sum[r] += counts ?", "sum[r] += (counts || @) ?"),
    ("scores that do not count join the maximum", DECODE, "if (counts) max =", "if (counts || @) max ="),
    ("scores that do not count stay unwritten", DECODE, "if (member == 0) scores",
     "if (member == 0 && (counts || !@)) scores"),
    ("key offsets in 32 bits", DECODE,
     "block * p.cache.key_block_stride",
     "(@ ? static_cast<int32_t>(block * p.cache.key_block_stride) : block * p.cache.key_block_stride)"),
    ("value offsets in 32 bits", DECODE,
     "block * p.cache.value_block_stride",
     "(@ ? static_cast<int32_t>(block * p.cache.value_block_stride) : block * p.cache.value_block_stride)"),
    ("the window is one too wide", DECODE,
     "const int window_begin = p.op.window > 0 ? simt::Max(context - p.op.window,",
     "const int window_begin = p.op.window > 0 ? simt::Max(context - p.op.window - (@ ? 1 : 0),"),
    ("partitions combine with m - m_max instead of its exponential", DECODE,
     "const float factor = simt::Exp(max_score[part + i] - max)",
     "const float factor = (@ ? max_score[part + i] - max : simt::Exp(max_score[part + i] - max))"),
    ("partitions combine without their sums", DECODE, "* exp_sum[part + i]", "* (@ ? 1.0f : exp_sum[part + i])"),
    ("partitions before the window are combined, too", DECODE,
     "const int first = begin / p.partition", "const int first = @ ? 0 : begin / p.partition"),
    ("ALiBi counts from the end of the context", DECODE,
     "static_cast<float>(position - range.position)",
     "static_cast<float>(position - range.position - (@ ? position : 0))"),
    ("the soft cap forgets its factor", DECODE,
     "score = p.soft_cap * simt::Tanh", "score = (@ ? 1.0f : p.soft_cap) * simt::Tanh"),
    ("the sink is left out", DECODE, "sum + SinkWeightOf", "sum + (@ ? 0.0f : 1.0f) * SinkWeightOf"),
    ("every partition counts the sink", DECODE, "p.num_partitions > 1 ? sum :", "(p.num_partitions > 1 && !@) ? sum :"),
    ("partitions combine without the sink", DECODE, "SumOf{}) + SinkWeightOf", "SumOf{}) + (@ ? 0.0f : 1.0f) * SinkWeightOf"),
    ("a sequence reads another's table", DECODE, "if (p.table_rows != nullptr) row", "if (p.table_rows != nullptr && !@) row"),
    ("keys are not scaled", DECODE, "p.scale * p.cache.k_scale", "p.scale * (@ ? 1.0f : p.cache.k_scale)"),
    ("no room for the block that a window begins in", LAUNCH,
     "* kBlockSize + kBlockSize;", "* kBlockSize + (@ ? 0 : kBlockSize);"),
]

plant(BUGS)
