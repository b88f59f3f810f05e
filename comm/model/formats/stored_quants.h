#pragma once

#include <cstdint>

namespace quire {

/// The quantisation of a safetensors model's matrices, as far as the tensors themselves do not tell. With every method,
/// matrices that were not quantised are plain tensors.
struct StoredQuants {
  enum class Method : uint8_t {
    kNone,
    kGptq,               // 4 or 8 bits
    kAwq,                // 4 bits
    kFloat8,             // FP8 E4M3, with Meta's fbgemm_fp8; with scales that are powers of two: MXFP8
    kCompressedTensors,  // packed integers of 4 or 8 bits, int8, FP8, NVFP4, MXFP4, MXFP8
    kModelOpt,           // FP8, NVFP4, MXFP8
    kBitsAndBytes,       // NF4, FP4 or int8
  };
  Method method = Method::kNone;
  int bits = 0;                            // bits of an integer of GPTQ and AWQ
  int64_t group = 0;                       // for GPTQ and AWQ: columns that share a scale; -1: all
  int zero_offset = 0;                     // for GPTQ: added to the file's zeros; 1 in its first version
  int64_t block_rows = 0, block_cols = 0;  // for FP8: size of a block that shares a scale; 0: no blocks
  bool operator==(const StoredQuants&) const = default;
};

}  // namespace quire
