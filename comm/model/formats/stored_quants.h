#pragma once

#include <cstdint>

namespace quire {

/// How a safetensors model's matrices are quantised, as far as its tensors do not say so themselves. Matrices that were
/// left out of it are plain tensors in any of them.
struct StoredQuants {
  enum class Method : uint8_t {
    kNone,
    kGptq,               // 4 or 8 bits
    kAwq,                // 4 bits
    kFloat8,             // also Meta's fbgemm_fp8
    kCompressedTensors,  // packed integers of 4 or 8 bits, int8, FP8
  };
  Method method = Method::kNone;
  int bits = 0;                            // of GPTQ and AWQ
  int64_t group = 0;                       // of GPTQ and AWQ: columns that share a scale; -1: all
  int zero_offset = 0;                     // of GPTQ: what zeros are more than the file says, 1 in its first version
  int64_t block_rows = 0, block_cols = 0;  // of scales of FP8; 0: there are no blocks
  bool operator==(const StoredQuants&) const = default;
};

}  // namespace quire
