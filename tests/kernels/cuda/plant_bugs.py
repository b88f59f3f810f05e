#!/usr/bin/env python3
"""Plants bugs in the attention kernels, each behind a switch, for planted_bugs_test.cc, which must find every one.

plant_bugs.py SOURCE_ROOT OUTPUT_ROOT: writes OUTPUT_ROOT/kernels/cuda/*.cuh and OUTPUT_ROOT/planted_bugs.h."""
import os
import sys

DECODE, REDUCE, LAUNCH = "paged_decode.cuh", "reduce.cuh", "paged_decode_launch.cuh"
TILES, ATTENTION = "decode_attention_tiles.cuh", "decode_attention.cuh"
MEETING, COMBINE = "decode_attention_meeting.cuh", "decode_attention_combine.cuh"
BARRIER, NO_BARRIER = "simt::SyncThreads();", "if (!@) simt::SyncThreads();"

# (what is wrong, file, text as it is, text with the bug). @ means "the bug is switched on". Every text occurs once.
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
    ("keys are not scaled", DECODE, "p.scale * p.cache.k_scale", "p.scale * (@ ? 1.0f : p.cache.k_scale)"),
    ("no room for the block that a window begins in", LAUNCH,
     "* kBlockSize + kBlockSize;", "* kBlockSize + (@ ? 0 : kBlockSize);"),
    ("tiles: offsets in 32 bits", TILES,
     "simt::Max(block, 0) * block_stride",
     "(@ ? static_cast<int32_t>(block * block_stride) : simt::Max(block, 0) * block_stride)"),
    ("tiles: blocks without a token that counts are followed", TILES,
     "if (begin < range.v[1] && begin", "if (@ || begin < range.v[1]) if (@ || begin"),
    ("tiles: queries are copied past the item's heads", TILES, "row < who.v[3]", "@ || row < who.v[3]"),
    ("tiles: queries are copied for the first item only", TILES,
     "if (first) CopyQueries", "if (first && (!@ || position == 0)) CopyQueries"),
    ("tiles: nobody waits for copies", TILES,
     "if (stages == 3) simt::WaitForCopies<1>()", "if (stages == 3 && !@) simt::WaitForCopies<1>()"),
    ("tiles: one group too few is waited for", TILES,
     "if (stages == 2) simt::WaitForCopies<0>()",
     "if (stages == 2 && @) simt::WaitForCopies<1>();\n    if (stages == 2 && !@) simt::WaitForCopies<0>()"),
    ("tiles: copies are never committed", TILES, "simt::CommitCopies()", "if (!@) simt::CommitCopies()"),
    ("tiles: values are copied without the swizzle", TILES, "dim ^ swizzle", "dim ^ (@ ? 0 : swizzle)"),
    ("tiles: half rows lie on top of each other", TILES, "* kX + half, from", "* kX + (@ ? 0 : half), from"),
    ("tiles: every sequence has the table row of its number", TILES,
     "if (p.op.table_rows != nullptr)", "if (p.op.table_rows != nullptr && !@)"),
    ("tiles: tiles begin at the window", TILES, "position = range.v[0] / kTile * kTile",
     "position = @ ? range.v[0] : range.v[0] / kTile * kTile"),
    ("tiles: the block is that of the tile's begin", TILES,
     "const int begin = position + part.begin;", "const int begin = position + (@ ? 0 : part.begin);"),
    ("attention: no barrier behind the wait", ATTENTION,
     f"{BARRIER}\n      // The stage before", f"{NO_BARRIER}\n      // The stage before"),
    ("attention: copies go to the stage in use", ATTENTION,
     "stage > 0 ? stage - 1 : stages - 1", "@ ? stage : stage > 0 ? stage - 1 : stages - 1"),
    ("attention: one token too many counts", ATTENTION,
     "position < tile.end", "position < tile.end + (@ ? 1 : 0)"),
    ("attention: the window is one too wide", ATTENTION,
     "position >= tile.begin", "position >= tile.begin - (@ ? 1 : 0)"),
    ("attention: values that do not count are multiplied by 0", ATTENTION,
     "b[0] &= keep[0]", "b[0] &= @ ? ~0u : keep[0]"),
    ("attention: lanes of other rows join the maximum", ATTENTION,
     "simt::ShuffleXor(max, 2)", "simt::ShuffleXor(max, @ ? 4 : 2)"),
    ("attention: outputs are not rescaled", ATTENTION,
     "rows.out[i][2 * h] *= factor", "rows.out[i][2 * h] *= @ ? 1.0f : factor"),
    ("attention: sums are not rescaled", ATTENTION, "rows.sum[h] *= factor", "rows.sum[h] *= @ ? 1.0f : factor"),
    ("attention: weights in the wrong order", ATTENTION,
     "weights[2 * t + h]", "weights[@ ? 2 * h + t : 2 * t + h]"),
    ("attention: keys' matrices in the wrong order", ATTENTION,
     "const int piece = kFp8 ? 0 : matrix % 2", "const int piece = kFp8 ? 0 : @ ? matrix / 2 : matrix % 2"),
    ("attention: values' matrices in the wrong order", ATTENTION,
     "Warp() * 2 + matrix % 2", "Warp() * 2 + (@ ? matrix / 2 : matrix % 2)"),
    ("attention: the wrong column of a fragment is masked", ATTENTION,
     "t * 8 + Lane() % 4 * 2 + e % 2", "t * 8 + Lane() % 4 * 2 + (@ ? 1 - e % 2 : e % 2)"),
    ("attention: values are read without the swizzle", ATTENTION,
     "^ Tiles::Swizzle(row, value_rows)", "^ (@ ? 0 : Tiles::Swizzle(row, value_rows))"),
    ("attention: tokens of E4M3 in memory's order", ATTENTION,
     "row / 2 * 4 + row % 2 + matrix % 2 * 2", "(@ ? matrix % 2 * 8 + row : row / 2 * 4 + row % 2 + matrix % 2 * 2)"),
    ("attention: E4M3 pairs in the wrong order", ATTENTION,
     "(raw[t] & 0xffff)", "(raw[t] >> (@ ? 16 : 0) & 0xffff)"),
    ("attention: the soft cap forgets its factor", ATTENTION,
     "score = p.soft_cap * simt::Tanh", "score = (@ ? 1.0f : p.soft_cap) * simt::Tanh"),
    ("attention: ALiBi counts from the tile", ATTENTION,
     "distance = position - (tile.context - 1)", "distance = position - (@ ? tile.position : tile.context - 1)"),
    ("attention: keys are not scaled", ATTENTION, "p.scale * p.cache.k_scale", "p.scale * (@ ? 1.0f : p.cache.k_scale)"),
    ("meeting: outputs overwrite a stage that is still read", MEETING,
     f"{BARRIER}\n#pragma unroll", f"{NO_BARRIER}\n#pragma unroll"),
    ("meeting: outputs are read without a barrier", MEETING,
     f"{BARRIER}\n      for (int i = simt::ThreadX()", f"{NO_BARRIER}\n      for (int i = simt::ThreadX()"),
    ("meeting: lanes of a row are not added up", MEETING,
     "sum += simt::ShuffleXor(sum, 2)", "sum += (@ ? 0 : 1) * simt::ShuffleXor(sum, 2)"),
    ("meeting: warps' outputs are added without rescaling", MEETING,
     "out.v[e] += factor *", "out.v[e] += (@ ? 1 : factor) *"),
    ("meeting: values are not scaled", MEETING, "p.op.cache.v_scale / sum", "(@ ? 1.0f : p.op.cache.v_scale) / sum"),
    ("combine: m - m_max instead of its exponential", COMBINE,
     "const float factor = simt::Exp2(max_score[first + s * kDecodeRows] - max)",
     "const float factor = (@ ? max_score[first + s * kDecodeRows] - max : "
     "simt::Exp2(max_score[first + s * kDecodeRows] - max))"),
    ("combine: parts combine without their sums", COMBINE,
     "* exp_sum[first + s * kDecodeRows]", "* (@ ? 1.0f : exp_sum[first + s * kDecodeRows])"),
    ("combine: no barrier before the groups are added", COMBINE,
     f"{BARRIER}\n    for (int d = thread", f"{NO_BARRIER}\n    for (int d = thread"),
    ("combine: the last slot is left out", COMBINE,
     "for (int s = thread / kLanes; s < slots;", "for (int s = thread / kLanes; s < slots - (@ ? 1 : 0);"),
]


def main():
    source_root, output_root = sys.argv[1:]
    folder = os.path.join(output_root, "kernels", "cuda")
    os.makedirs(folder, exist_ok=True)
    for name in (DECODE, REDUCE, LAUNCH, TILES, ATTENTION, MEETING, COMBINE):
        with open(os.path.join(source_root, "kernels", "cuda", name), encoding="utf-8") as f:
            text = f.read()
        for number, (what, file, original, planted) in enumerate(BUGS, 1):
            if file != name:
                continue
            if text.count(original) != 1:
                sys.exit(f"plant_bugs.py: '{what}': its text is in {name} {text.count(original)} times; move it along")
            text = text.replace(original, planted.replace("@", f"(simt::ActiveBug() == {number})"))
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text.replace("#pragma once", '#pragma once\n\n#include "simt/active_bug.h"', 1))
    with open(os.path.join(output_root, "planted_bugs.h"), "w", encoding="utf-8") as f:
        f.write("#pragma once\n\nstruct PlantedBug {\n  const char* what;\n  bool in_decode_attention;\n};\n")
        f.write("inline constexpr PlantedBug kPlantedBugs[] = {\n")
        for what, file, *_ in BUGS:
            f.write(f'    {{"{what}", {str(file in (TILES, ATTENTION, MEETING, COMBINE)).lower()}}},\n')
        f.write("};\n")


main()
