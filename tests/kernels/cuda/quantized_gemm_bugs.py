#!/usr/bin/env python3
"""Lists bugs to plant in products with quantised weights; quantized_gemm_bugs_test.cc must find every one. planting.py describes how to
run this."""
from planting import BARRIER, NO_BARRIER, plant

GEMM, PIECE = "products/quantized_gemm.cuh", "products/quantized_piece.cuh"
ROWS = "products/quantize_rows.cuh"

BUGS = [
    ("no barrier before the warps' sums are added", GEMM, f"{BARRIER}\n    for (int i = simt::ThreadX();",
     f"{NO_BARRIER}\n    for (int i = simt::ThreadX();"),
    ("x is read while the kernel before may still write it", GEMM, "simt::WaitForPrerequisites();",
     "if (!@) simt::WaitForPrerequisites();"),
    ("nibbles of a word in the other order", PIECE, "simt::PackPair<T>(Value(bits), Value(bits >> kBits))",
     "(@ ? simt::PackPair<T>(Value(bits >> kBits), Value(bits)) : simt::PackPair<T>(Value(bits), Value(bits >> kBits)))"),
    ("high bits of the number before", PIECE, "high >> 2, i / 16", "(@ ? high : high >> 2), i / 16"),
    ("high bits of the first half for both", PIECE, "highs.v[i / 16]", "highs.v[@ ? 0 : i / 16]"),
    ("a number of six bits has its neighbour's", PIECE, "(high & 3) << 4", "(high & (@ ? 15 : 3)) << 4"),
    ("both halves have the first one's scale", PIECE, "has_minimum || half == 0 ? first", "@ || has_minimum || half == 0 ? first"),
    ("numbers of six bits with a minimum are taken for those without", PIECE, "weight.type == NumberType::kQ5_K;",
     "!@ && weight.type == NumberType::kQ5_K;"),
    ("32 is left on numbers of six bits", PIECE, ": -32 * d", ": (@ ? -31 : -32) * d"),
    ("high bits lie where scales do", PIECE, "at / 16);", "at / 16 + (@ ? 2 : 0));"),
    ("the word that follows", PIECE, "ints.v[i / kInWord]", "ints.v[(i / kInWord + (@ ? 1 : 0)) % 4]"),
    ("a nibble has its neighbour's bits", PIECE, "Number(bits & 0xf)", "Number(bits & (@ ? 0xff : 0xf))"),
    ("the minimum is left out", PIECE, "+ simt::ToFloat(scales.v[1]);", "+ (@ ? 0.0f : simt::ToFloat(scales.v[1]));"),
    ("bytes are unsigned", PIECE, "bits & 0xff, 128", "bits & 0xff, @ ? 0 : 128"),
    ("numbers of E2M1 have no sign", PIECE, "(bits & 8) << 28", "(@ ? 0u : (bits & 8) << 28)"),
    ("E2M1's numbers are half of what they are", PIECE, "* 0x1p126f", "* (@ ? 0x1p125f : 0x1p126f)"),
    ("numbers of E4M3 have no sign", PIECE, "(bits & 0x80) << 24", "(@ ? 0u : (bits & 0x80) << 24)"),
    ("E4M3's numbers are half of what they are", PIECE, "* 0x1p120f", "* (@ ? 0x1p119f : 0x1p120f)"),
    ("FP8 has one scale for a row where it has one for 128 columns", PIECE, "weight.type == NumberType::kFp8Groups;",
     "!@ && weight.type == NumberType::kFp8Groups;"),
    ("groups of FP8 have 256 columns", PIECE, "+ column / kFp8Group :", "+ column / (@ ? 2 * kFp8Group : kFp8Group) :"),
    ("scales of the block before", PIECE, "at / 32 * kScales;", "(@ ? row * weight.k + column / 64 * 64 : at) / 32 * kScales;"),
    ("columns past K are read", GEMM, "column < weight.k) weights", "(@ || column < weight.k)) weights"),
    ("rows past the weight are read", GEMM, "if (row < weight.n &&", "if ((@ || row < weight.n) &&"),
    ("rows past the batch are read", GEMM, "mine < p.m,", "(@ || mine < p.m),"),
    ("x past K is read", GEMM, "column < weight.k) {\n", "(@ || column < weight.k)) {\n"),
    ("the next chunk's weights in place of this one's", GEMM, "const Weights now = next;\n      next = Load(weight, first_row + "
     "lane / 4, column + kWarps * kChunk);", "Weights now = next;\n      next = Load(weight, first_row + lane / 4, column + "
     "kWarps * kChunk);\n      if (@) now = next;"),
    ("the lane's columns are those of the first lane", GEMM, "lane % 4 * Piece::kNumbers", "(@ ? 0 : lane % 4 * Piece::kNumbers)"),
    ("the second four columns are the first", GEMM, "const int from = i + part * 4;", "const int from = i + (@ ? 0 : part * 4);"),
    ("upper and lower rows of a tile are swapped", GEMM, "weights.of[r][0], &lower = weights.of[r][1]",
     "weights.of[r][@ ? 1 : 0], &lower = weights.of[r][@ ? 0 : 1]"),
    ("a warp's sums are left out", GEMM, "for (int w = 1; w < kWarps; ++w) sum", "for (int w = 1; w < kWarps - (@ ? 1 : 0); ++w) sum"),
    ("the scale of the result is left out", GEMM, "sum * p.scale", "sum * (@ ? 1.0f : p.scale)"),
    ("columns past the output are written", GEMM, "if (first_row + j >= n) continue;",
     "if (!@ && first_row + j >= n) continue;"),
    ("rows become FP8 while the kernel before may still write them", ROWS, "simt::WaitForPrerequisites();",
     "if (!@) simt::WaitForPrerequisites();"),
    ("a row's largest number is its largest above zero", ROWS, "return x < 0 ? -x : x;", "return x < 0 ? (@ ? 0.0f : -x) : x;"),
    ("a row's largest number is a warp's", ROWS, "largest = BlockReduce<kWarps>(largest, warps, MaxOf{});",
     "if (!@) largest = BlockReduce<kWarps>(largest, warps, MaxOf{});"),
    ("all rows have the first one's scale", ROWS, "(p.scales)[row]", "(p.scales)[@ ? 0 : row]"),
    ("rows that become FP8 follow one another", ROWS, "+ row * p.x_stride", "+ row * (@ ? p.k : p.x_stride)"),
    ("numbers become FP8 unscaled", ROWS, "* factor);", "* (@ ? 1.0f : factor));"),
    ("the first columns alone become FP8", ROWS, "i += kThreads * kVec) {\n      const simt::Vec<T, kVec> numbers = simt::LoadVec<kVec>(x, i);\n      simt::Vec",
     "i += kThreads * kVec * (@ ? 100 : 1)) {\n      const simt::Vec<T, kVec> numbers = simt::LoadVec<kVec>(x, i);\n      simt::Vec"),
    ("expanded from the first row on", GEMM, "p.first_row + at / k", "(@ ? 0 : p.first_row) + at / k"),
    ("expanded past the rows", GEMM, "if (at >= p.rows * k) return;", "if (!@ && at >= p.rows * k) return;"),
    ("the second pair of eight is the first", GEMM, "piece.template Pair<T>(i + 2),\n", "piece.template Pair<T>(i + (@ ? 0 : 2)),\n"),
]

plant(BUGS)
