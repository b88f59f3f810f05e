#!/usr/bin/env python3
"""Lists bugs to plant in the skinny GEMM; skinny_gemm_bugs_test.cc must find every one. planting.py describes how to run this."""
from planting import BARRIER, NO_BARRIER, plant

GEMM = "products/skinny_gemm.cuh"

BUGS = [
    ("no barrier between the last stages and the sums that take their place", GEMM,
     f"{BARRIER}  // all reads", f"{NO_BARRIER}  // all reads"),
    ("no barrier before the warps' sums are added", GEMM, f"{BARRIER}\n    const bool pairs",
     f"{NO_BARRIER}\n    const bool pairs"),
    ("lanes of a warp do not wait for each other's copies", GEMM, "simt::SyncWarp();", "if (!@) simt::SyncWarp();"),
    ("a stage is read before its copy has come", GEMM, "simt::WaitForCopies<kStages - 2>();",
     "if (@) simt::WaitForCopies<kStages - 1>();\n      if (!@) simt::WaitForCopies<kStages - 2>();"),
    ("the last copies are waited for as if others followed them", GEMM, "      simt::CommitCopies();\n      Multiply",
     "      if (!@ || item + kStages - 1 < self.items) simt::CommitCopies();\n      Multiply"),
    ("the stage in use is filled", GEMM, "self.CopyWeight(item + kStages - 1);",
     "self.CopyWeight(item + kStages - (@ ? 0 : 1));"),
    ("the weight's columns past K are not zeros", GEMM, "mine < rows && column < k", "mine < rows && (column < k || @)"),
    ("x's columns past K are not zeros", GEMM, "mine < m && column < k", "mine < m && (column < k || @)"),
    ("the norm weight's columns past K are not zeros", GEMM, "norm_weight, column, column < k",
     "norm_weight, column, column < k || @"),
    ("rows past the weight are read", GEMM, "const int mine = row + lane / kPieces;\n        simt::CopyAsync<16>(to, "
     "At(mine, lane % kPieces), weight", "const int mine = @ ? 0 : row + lane / kPieces;\n        "
     "simt::CopyAsync<16>(to, At(row + lane / kPieces, lane % kPieces), weight"),
    ("rows past the batch are read", GEMM, "simt::CopyAsync<16>(to, At(mine, lane % kPieces), x, from, mine < m",
     "simt::CopyAsync<16>(to, At(mine, lane % kPieces), x, from, (@ || mine < m)"),
    ("x is read while the kernel before may still write it", GEMM, "simt::WaitForPrerequisites();",
     "if (!@) simt::WaitForPrerequisites();"),
    ("the last chunks are left out", GEMM, "(chunks - warp + kWarps - 1) / kWarps",
     "(chunks - warp + (@ ? 0 : kWarps - 1)) / kWarps"),
    ("the second half of a chunk is its first", GEMM, "item % kItems * kStep", "(@ ? 0 : item % kItems * kStep)"),
    ("rows of x in 32 bits", GEMM, "from += kRowsPerCopy * x_stride",
     "from += @ ? static_cast<int32_t>(kRowsPerCopy * x_stride) : kRowsPerCopy * x_stride"),
    ("rows of the output in 32 bits", GEMM, "row * p.out_stride + first_out",
     "(@ ? static_cast<int32_t>(row * p.out_stride) : row * p.out_stride) + first_out"),
    ("x's matrices are not where they were swizzled to", GEMM, "piece + lane / 8 % 2));",
     "piece + (@ ? 0 : lane / 8 % 2)));"),
    ("squares lack those of a neighbouring lane", GEMM, "squares[c] += simt::ShuffleXor(squares[c], 2);",
     "if (!@) squares[c] += simt::ShuffleXor(squares[c], 2);"),
    ("the mean of squares is their sum", GEMM, "/ static_cast<float>(p.k)", "/ (@ ? 1.0f : static_cast<float>(p.k))"),
    ("the norm forgets epsilon", GEMM, "+ p.epsilon)", "+ (@ ? 0.0f : p.epsilon))"),
    ("ups are not scaled", GEMM, "at + 8, kBatch * kSumStride) * scale",
     "at + 8, kBatch * kSumStride) * (@ ? 1.0f : scale)"),
    ("squares of x after the norm's weight", GEMM, "squares += pair.v[0] * pair.v[0];",
     "squares += pair.v[0] * pair.v[0] * (@ ? simt::ToFloat(weight.v[0]) : 1.0f);"),
    ("gates and ups take turns one by one", GEMM, "j / 8 * 16 + j % 8", "(@ ? j * 2 : j / 8 * 16 + j % 8)"),
    ("the up's SiLU times the gate", GEMM, "sum / (1 + simt::Exp(-sum)) * up", "sum / (1 + simt::Exp(@ ? -up : -sum)) * up"),
    ("the residual is added twice", GEMM, "sum += simt::ToFloat(residual);",
     "sum += simt::ToFloat(residual) * (@ ? 2.0f : 1.0f);"),
    ("columns past the output are written", GEMM, "if (first_out + j >= end_out) continue;",
     "if (!@ && first_out + j >= end_out) continue;"),
    ("a warp's sums are left out", GEMM, "for (int w = 1; w < kWarps; ++w) sum",
     "for (int w = 1; w < kWarps - (@ ? 1 : 0); ++w) sum"),
]

plant(BUGS)
