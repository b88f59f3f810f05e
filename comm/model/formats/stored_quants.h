#pragma once

#include <cstdint>

namespace quire {

/// The properties of a safetensors model's quantisation that the tensors themselves do not show. With every method,
/// matrices that are not quantised are plain tensors.
struct StoredQuants {
  enum class Method : uint8_t {
    kNone,
    kGptq,               // 4 or 8 bits
    kAwq,                // 4 bits
    kFloat8,             // FP8 E4M3, also Meta's fbgemm_fp8; with scales that are powers of two: MXFP8
    kCompressedTensors,  // packed integers of 4 or 8 bits, int8, FP8, NVFP4, MXFP4, MXFP8
    kModelOpt,           // FP8, NVFP4, MXFP8
    kBitsAndBytes,       // NF4, FP4 or int8
  };
  Method method = Method::kNone;
  int bits = 0;                            // number of bits of an integer of GPTQ and AWQ
  int64_t group = 0;                       // for GPTQ and AWQ: number of columns that share a scale; -1: all columns
  int zero_offset = 0;                     // for GPTQ: added to the file's zeros; 1 in GPTQ's first version
  int64_t block_rows = 0, block_cols = 0;  // for FP8: size of a block that shares a scale; 0: no blocks
  bool operator==(const StoredQuants&) const = default;
};

}  // namespace quire
