#pragma once

#include "kernels/weight.h"

namespace quire::kernels {

/// Where the MXFP4 blocks of a row lie. A block of 32 numbers is 16 bytes of nibbles and one byte of scale.
struct MxFp4Blocks {
  const std::byte* nibbles;
  int64_t nibble_stride;  // bytes between blocks
  const std::byte* scales;
  int64_t scale_stride;
  bool pairs;  // true: neighbouring numbers share a byte; false: numbers i and i + 16 share a byte
};

constexpr bool IsMxFp4(NumberType type) { return type == NumberType::kMxFp4 || type == NumberType::kMxFp4Pairs; }

/// Returns the blocks of a row from column `col` on; `col` must begin a block.
MxFp4Blocks BlocksOf(const Weight& weight, int64_t row, int64_t col);

/// Decodes `count` blocks to float.
void DecodeMxFp4(const MxFp4Blocks& in, int64_t count, float* out);

/// Converts `count` blocks to q8_0 with the same values. Scales below 2^-23 become 0; scales from 2^17 on become
/// infinite.
void MxFp4AsQ8(const MxFp4Blocks& in, int64_t count, std::byte* out);

}  // namespace quire::kernels
