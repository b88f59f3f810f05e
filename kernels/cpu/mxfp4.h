#pragma once

#include "kernels/weight.h"

namespace quire::kernels {

/// Where blocks of 32 numbers in MXFP4 are: 16 bytes of nibbles each, a byte of scale each.
struct MxFp4Blocks {
  const std::byte* nibbles;
  int64_t nibble_stride;  // bytes from block to block
  const std::byte* scales;
  int64_t scale_stride;
  bool pairs;  // neighbours share a byte; otherwise number i and i + 16
};

constexpr bool IsMxFp4(NumberType type) { return type == NumberType::kMxFp4 || type == NumberType::kMxFp4Pairs; }

/// From column `col` on, which begins a block.
MxFp4Blocks BlocksOf(const Weight& weight, int64_t row, int64_t col);

/// The numbers of `count` blocks.
void DecodeMxFp4(const MxFp4Blocks& in, int64_t count, float* out);

/// The same numbers as blocks of q8_0. Scales below 2^-23 lose digits or are 0, those from 2^17 on become infinite.
void MxFp4AsQ8(const MxFp4Blocks& in, int64_t count, std::byte* out);

}  // namespace quire::kernels
